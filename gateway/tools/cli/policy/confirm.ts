import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { loadConfiguration } from '../../../configuration/configuration.ts'
import { UsageError } from '../../../configuration/failure.ts'

export function runConfirm({ config, pid }: Readonly<{ config: string; pid?: string }>): void {
  const target =
    pid === undefined ? findGateway(loadConfiguration(config, process.env).listeners.admin.port) : readPid(pid)
  process.kill(target, 'SIGHUP')
  process.stdout.write(
    `process ${target} received SIGHUP and takes the policy files as they are. Its log lists the changes.\n`,
  )
}

function readPid(text: string): number {
  if (/^[1-9][0-9]{0,9}$/.test(text)) return Number(text)
  throw new UsageError('--pid takes a process id, such as 4711')
}

/**
 * The process that holds the admin listener, a group's primary, passes the signal on. A PID file would need a writable
 * folder, and could name another process after a crash.
 */
function findGateway(port: number): number {
  const sockets = port === 0 || process.platform !== 'linux' ? new Set<string>() : listListening(port)
  const found = (sockets.size > 0 ? readdirSync('/proc') : [])
    .filter((name) => /^[0-9]+$/.test(name))
    .find((pid) => listLinks(`/proc/${pid}/fd`).some((link) => sockets.has(link)))
  if (found !== undefined) return Number(found)
  throw new UsageError(
    `no process here listens on port ${port} of listeners.admin. Run this where the gateway runs, as its user, or give --pid.`,
  )
}

/** Lists sockets as `socket:[inode]`, the form of the links in /proc/PID/fd. `/proc/net/tcp`: proc(5). */
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
    return [] // no IPv6, or not Linux
  }
}

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
    return ''
  }
}
