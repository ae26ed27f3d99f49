import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findFreePort } from '../../demo/free-port.ts'
import { endWithThisProcess } from '../support/end-with-this-process.ts'
import type { Owner } from '../support/owner.ts'

/** A real PgBouncer: Debian's, and one that follows prepared statements (1.21 and newer). */
export const pgbouncers = [
  { name: 'PgBouncer of Debian', program: '/usr/sbin/pgbouncer', followsStatements: false },
  {
    name: 'PgBouncer from 1.21 on',
    program: fileURLToPath(new URL('../../.sallyport/pgbouncer/pgbouncer', import.meta.url)),
    followsStatements: true,
  },
] as const

export type PgBouncer = (typeof pgbouncers)[number]

/** The reason why PgBouncer cannot be started here; undefined where it can. */
export const lackOf = ({ name, program }: PgBouncer): string | undefined =>
  existsSync(program) && spawnSync(program, ['--version']).status === 0 ? undefined : `there is no ${name} (${program})`

export type PoolerSettings = Readonly<Record<string, string | number>>

/** PgBouncer refuses to run as root. */
const account = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}

/** Starts it on loopback in front of a database; gives the database's address by way of it. Ends with its owner. */
export async function startPgBouncer(
  owner: Owner,
  { name, program }: PgBouncer,
  databaseUrl: string,
  settings: PoolerSettings = {},
): Promise<string> {
  const url = new URL(databaseUrl)
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-pgbouncer-'))
  chmodSync(directory, 0o755)
  // The build folder is closed to other users.
  const copy = join(directory, 'pgbouncer')
  copyFileSync(program, copy)
  chmodSync(copy, 0o755)
  const users = join(directory, 'users.txt')
  writeFileSync(users, `"${url.username}" "${url.password}"\n`, { mode: 0o644 })
  const port = await findFreePort()
  const lines = Object.entries({
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'scram-sha-256',
    auth_file: users,
    pool_mode: 'transaction',
    default_pool_size: 3,
    server_reset_query: 'discard all',
    log_connections: 0,
    log_disconnections: 0,
    ...settings,
  }).map(([key, value]) => `${key} = ${value}`)
  const file = join(directory, 'pgbouncer.ini')
  writeFileSync(file, `[databases]\n* = host=${url.hostname} port=${url.port}\n[pgbouncer]\n${lines.join('\n')}\n`)
  const child = spawn(copy, [file], { ...account, cwd: directory, stdio: ['ignore', 'ignore', 'pipe'] })
  endWithThisProcess(child)
  owner.teardown(async () => {
    await kill(child)
    rmSync(directory, { recursive: true, force: true })
  })
  await waitUntilUp(child, name)
  url.port = String(port)
  return url.href
}

async function waitUntilUp(child: ChildProcess, name: string): Promise<void> {
  let log = ''
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', () => reject(new Error(`${name} ended: ${log}`)))
    child.stderr?.on('data', (chunk: Buffer) => {
      log += chunk.toString()
      if (/process up/i.test(log)) resolve()
    })
  })
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}
