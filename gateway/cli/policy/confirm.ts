import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { loadConfiguration } from '../../configuration/configuration.ts'
import { UsageError } from '../../configuration/failure.ts'

/** Has the gateway of a configuration, on this machine or in this container, take the policy files as they are. */
export function runConfirm({ config, pid }: Readonly<{ config: string; pid?: string }>): void {
  const target =
    pid === undefined ? findGateway(loadConfiguration(config, process.env).listeners.admin.port) : readPid(pid)
  process.kill(target, 'SIGHUP')
  process.stdout.write(`process ${target} was told to take the policy files as they are; its log says what changed\n`)
}

function readPid(text: string): number {
  if (/^[1-9][0-9]{0,9}$/.test(text)) return Number(text)
  throw new UsageError('--pid takes the number of a process')
}

/**
 * The process that holds the admin listener: of a group its primary, which passes the signal on. A file with its number
 * would want a folder that may be written to, and could name another process after a crash.
 */
function findGateway(port: number): number {
  const sockets = port === 0 || process.platform !== 'linux' ? new Set<string>() : listListening(port)
  const found = (sockets.size > 0 ? readdirSync('/proc') : [])
    .filter((name) => /^[0-9]+$/.test(name))
    .find((pid) => listLinks(`/proc/${pid}/fd`).some((link) => sockets.has(link)))
  if (found !== undefined) return Number(found)
  throw new UsageError(
    `no process here listens at port ${port}, where listeners.admin is; run this where the gateway runs, as its user, or give --pid`,
  )
}

/** As links of descriptors show them, `socket:[inode]`. `/proc/net/tcp`: proc(5). */
function listListening(port: number): ReadonlySet<string> {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const lines = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((file) => readLines(file))
  const columns = lines.map((line) => line.trim().split(/\s+/))
  const listening = columns.filter(([, local = '', , state]) => local.endsWith(suffix) && state === '0A')
  return new Set(listening.map((line) => `socket:[${line[9]}]`))
}

function readLines(file: string): readonly string[] {
  try {
    return readFileSync(file, 'utf8').split('\n')
  } catch {
    return [] // no IPv6, or no Linux
  }
}

/** Of a process that has gone, or is another user's, none. */
function listLinks(folder: string): readonly string[] {
  try {
    return readdirSync(folder).map((name) => readLink(`${folder}/${name}`))
  } catch {
    return []
  }
}

function readLink(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return '' // closed meanwhile
  }
}
