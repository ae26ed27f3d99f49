import { randomBytes } from 'node:crypto'
import { chmod, chown, cp, mkdtemp, readdir, realpath, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { findFreePort } from '../../demo/free-port.ts'
import { type Account, temporaryRoot, unprivilegedAccount } from '../../demo/postgres-account.ts'
import { prepareBinaries } from '../../demo/postgres-binaries.ts'
import { createCluster } from '../../demo/postgres-cluster.ts'
import { createDatabase, databaseUrl, superuser } from '../../demo/postgres-database.ts'
import { type ServerRun, spawnServer, stopServer } from '../../demo/postgres-server.ts'
import { endWithThisProcess } from '../support/end-with-this-process.ts'
import { until } from '../support/gateway.ts'
import type { Owner } from '../support/owner.ts'

/** A server of a pair; the administrator may do everything on it. */
export type ReplicatedServer = Readonly<{ url: string; administrator: pg.Client }>

/** A real primary and its streaming standby, both empty but for the role and the database of the gateway. */
export type Replication = Readonly<{
  primary: ReplicatedServer
  standby: ReplicatedServer
  /** The standby goes on receiving, and shows nothing of it. */
  pauseReplay: () => Promise<void>
  resumeReplay: () => Promise<void>
  /** Resolves once the standby shows all that the primary has committed so far. */
  untilReplayed: () => Promise<void>
  /** Stops the primary in order. */
  stopPrimary: () => Promise<void>
}>

// A standby must have room for at least as many senders as initdb's defaults.
const settings = ['wal_level=replica', 'max_wal_senders=10', 'hot_standby=on', 'wal_keep_size=64MB']

/** Starts both on loopback; they end with their owner, or with this process. */
export async function startReplication(owner: Owner): Promise<Replication> {
  const account = unprivilegedAccount()
  const root = await realpath(process.env.SALLYPORT_TEST_MEMORY ?? (await temporaryRoot(account)))
  const directory = await mkdtemp(join(root, 'sallyport-standby-'))
  owner.teardown(() => rm(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }))
  if (account) await chmod(directory, 0o711)
  const { initdb, postgres: program } = await prepareBinaries(account, root, join(directory, 'binaries'))
  const [data, copy] = [join(directory, 'primary'), join(directory, 'standby')]
  const superuserPassword = await createCluster(initdb, account, directory, data)
  // The result of initdb serves as a base backup: it was shut down in order.
  await cp(data, copy, { recursive: true })
  const [port, standbyPort] = [await findFreePort(), await findFreePort()]
  const source = `host=127.0.0.1 port=${port} user=${superuser} password=${superuserPassword}`
  await writeFile(join(copy, 'postgresql.auto.conf'), `primary_conninfo = '${source}'\n`)
  await writeFile(join(copy, 'standby.signal'), '')
  await giveTo(account, copy)
  const spawn = (data: string, port: number): ServerRun => {
    const run = spawnServer({ program, account, directory, data, port, settings })
    endWithThisProcess(run.child)
    owner.teardown(() => stopServer(run))
    return run
  }
  const primaryRun = spawn(data, port)
  const access = { port, superuserPassword, password: randomBytes(18).toString('base64url') }
  const giveUpAtMs = performance.now() + 60_000
  await createDatabase(access, () => performance.now() > giveUpAtMs)
  const standbyRun = spawn(copy, standbyPort)
  const primary = { url: databaseUrl(access), administrator: await administrate(owner, access, primaryRun) }
  const standbyAccess = { ...access, port: standbyPort }
  const standby = {
    url: databaseUrl(standbyAccess),
    administrator: await administrate(owner, standbyAccess, standbyRun),
  }
  const read = async ({ administrator }: ReplicatedServer, text: string): Promise<string> => {
    const { rows } = await administrator.query<{ value: string }>(`select (${text})::text as value`)
    return rows[0]?.value ?? ''
  }
  return {
    primary,
    standby,
    pauseReplay: async () => {
      await standby.administrator.query('select pg_wal_replay_pause()')
      await until(
        async () => (await read(standby, 'pg_get_wal_replay_pause_state()')) === 'paused',
        'the pause',
        20_000,
      )
    },
    resumeReplay: async () => {
      await standby.administrator.query('select pg_wal_replay_resume()')
    },
    untilReplayed: async () => {
      const position = await read(primary, 'pg_current_wal_flush_lsn()')
      const isThere = async () => (await read(standby, `pg_last_wal_replay_lsn() >= '${position}'`)) === 'true'
      await until(isThere, 'the replay', 20_000)
    },
    stopPrimary: async () => {
      await primary.administrator.end()
      await stopServer(primaryRun)
    },
  }
}

async function giveTo(account: Account, folder: string): Promise<void> {
  if (!account) return
  const names = await readdir(folder, { recursive: true })
  for (const path of ['.', ...names]) await chown(join(folder, path), account.uid, account.gid)
  await chmod(folder, 0o700)
}

/** Connects as the superuser, to the gateway's database, as soon as the server lets it in. */
async function administrate(
  owner: Owner,
  { port, superuserPassword }: Readonly<{ port: number; superuserPassword: string }>,
  run: ServerRun,
): Promise<pg.Client> {
  for (const giveUpAtMs = performance.now() + 60_000; ; ) {
    const client = new pg.Client({
      host: '127.0.0.1',
      port,
      user: superuser,
      password: superuserPassword,
      database: 'sallyport',
    })
    client.on('error', () => undefined)
    try {
      await client.connect()
      owner.teardown(() => client.end().catch(() => undefined))
      return client
    } catch (cause) {
      if (performance.now() > giveUpAtMs) throw new Error(`the server did not start: ${run.readLog()}`, { cause })
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
