import { spawnSync } from 'node:child_process'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { join, sep } from 'node:path'

export async function findPostmaster(data: string): Promise<number | undefined> {
  const text = await readOrEmpty(readFile(join(data, 'postmaster.pid'), 'utf8'))
  const [firstLine, secondLine] = text.split('\n')
  const pid = Number(firstLine)
  if (!Number.isSafeInteger(pid) || pid <= 1 || secondLine !== data) return undefined
  // A lock file outlives a crash and process ids are reused, so the command line must name the directory.
  return (await readWords(pid)).includes(data) ? pid : undefined
}

/** Processes whose working directory is inside; empty on systems other than Linux. */
export async function findInhabitants(directory: string): Promise<readonly string[]> {
  if (process.platform !== 'linux') return []
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const places = await Promise.all(pids.map((pid) => readOrEmpty(readlink(`/proc/${pid}/cwd`))))
  return pids.filter((_, index) => `${places[index]}${sep}`.startsWith(directory + sep))
}

// Empty for a zombie, which counts as ended: a container without an init may never reap it.
async function readWords(pid: number): Promise<readonly string[]> {
  if (process.platform === 'linux') return (await readOrEmpty(readFile(`/proc/${pid}/cmdline`, 'utf8'))).split('\0')
  return spawnSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' })
    .stdout.trim()
    .split(' ')
}

const answersForNothing = new Set(['ENOENT', 'ESRCH', 'EACCES', 'EPERM'])

async function readOrEmpty(reading: Promise<string>): Promise<string> {
  try {
    return await reading
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && answersForNothing.has(String(cause.code))) return ''
    throw cause
  }
}
