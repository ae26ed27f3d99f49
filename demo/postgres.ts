import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdtemp, realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { findFreePort, isPortFree } from './free-port.ts'
import { type Account, temporaryRoot, unprivilegedAccount } from './postgres-account.ts'
import { prepareBinaries } from './postgres-binaries.ts'
import { createCluster } from './postgres-cluster.ts'
import { createDatabase, type DatabaseAccess, databaseUrl } from './postgres-database.ts'
import { type SupervisedServer, spawnServer, stopServer, superviseServer } from './postgres-server.ts'
import { startWatchdog } from './watchdog-process.ts'

export type EmbeddedPostgres = Readonly<{ url: string; pid: () => number | undefined; stop: () => Promise<void> }>

export type EmbeddedPostgresOptions = Readonly<{
  port?: number
  onUnexpectedExit?: (detail: string) => void
  filesToRemove?: readonly string[]
  settings?: readonly string[]
  root?: string
}>

type Cluster = Readonly<{
  program: string
  account: Account
  directory: string
  data: string
  superuserPassword: string
  settings: readonly string[]
}>
type Started = Readonly<{ server: SupervisedServer; url: string }>

const readyTimeoutMs = 20_000
const portAttempts = 3

export async function startPostgres(options: EmbeddedPostgresOptions = {}): Promise<EmbeddedPostgres> {
  if (options.port !== undefined && !(await isPortFree(options.port))) {
    throw new Error(`Port ${options.port} of 127.0.0.1 is taken`)
  }
  const account = unprivilegedAccount()
  const root = await realpath(options.root ?? (await temporaryRoot(account)))
  const directory = await mkdtemp(join(root, 'sallyport-'))
  const data = join(directory, 'data')
  const watchdog = startWatchdog({ directory, data, files: options.filesToRemove ?? [] })
  const removeAll = async (): Promise<void> => {
    await rm(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
    await watchdog.release()
  }
  try {
    if (account !== undefined) await chmod(directory, 0o711)
    const { initdb, postgres: program } = await prepareBinaries(account, root, join(directory, 'binaries'))
    const superuserPassword = await createCluster(initdb, account, directory, data)
    const cluster = { program, account, directory, data, superuserPassword, settings: options.settings ?? [] }
    const { server, url } = await startServer(cluster, options)
    let stopped: Promise<void> | undefined
    const stop = (): Promise<void> => {
      stopped ??= server.stop().then(removeAll)
      return stopped
    }
    return { url, pid: server.pid, stop }
  } catch (cause) {
    await removeAll()
    throw cause
  }
}

async function startServer(cluster: Cluster, options: EmbeddedPostgresOptions): Promise<Started> {
  for (let attempt = 1; ; attempt += 1) {
    const port = options.port ?? (await findFreePort())
    try {
      return await startOnPort(port, cluster, options.onUnexpectedExit ?? (() => undefined))
    } catch (cause) {
      if (options.port !== undefined || attempt === portAttempts || (await isPortFree(port))) throw cause
    }
  }
}

async function startOnPort(
  port: number,
  { superuserPassword, ...command }: Cluster,
  onUnexpectedExit: (detail: string) => void,
): Promise<Started> {
  const access: DatabaseAccess = { port, superuserPassword, password: randomBytes(24).toString('base64url') }
  const run = spawnServer({ ...command, port })
  const logged = once(run.child, 'close')
  const giveUpAtMs = performance.now() + readyTimeoutMs
  let hasEnded = false
  void run.ended.then(() => {
    hasEnded = true
  })
  try {
    await createDatabase(access, () => hasEnded || performance.now() > giveUpAtMs)
  } catch (cause) {
    await stopServer(run)
    await logged
    throw new Error(`PostgreSQL did not become ready. Its log: ${run.readLog()}`, { cause })
  }
  return { server: superviseServer({ ...command, port }, run, onUnexpectedExit), url: databaseUrl(access) }
}
