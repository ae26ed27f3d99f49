import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing } from './postgres-account.ts'

/** The process that serves this data directory now, by its lock file, or undefined if there is none. */
export async function findPostmaster(data: string): Promise<number | undefined> {
  const text = await readOrEmpty(join(data, 'postmaster.pid'))
  const [firstLine, secondLine] = text.split('\n')
  const pid = Number(firstLine)
  if (!Number.isSafeInteger(pid) || pid <= 1 || secondLine !== data) return undefined
  return (await isServing(pid, data)) ? pid : undefined
}

/** Whether that process lives and is the server of this directory: a lock file outlives a crash, and pids come again. */
export async function isServing(pid: number, data: string): Promise<boolean> {
  const words = process.platform === 'linux' ? await wordsByProc(pid) : wordsByPs(pid)
  return words.includes(data)
}

// Empty for a zombie, which counts as ended: an orphan may never be reaped in a container without an init.
async function wordsByProc(pid: number): Promise<readonly string[]> {
  return (await readOrEmpty(`/proc/${pid}/cmdline`)).split('\0')
}

function wordsByPs(pid: number): readonly string[] {
  return spawnSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' })
    .stdout.trim()
    .split(' ')
}

async function readOrEmpty(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    if (isMissing(cause) || isGone(cause)) return ''
    throw cause
  }
}

// /proc answers so when the process ends between the open and the read.
function isGone(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ESRCH'
}
