import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

/** Stops a server and all its processes, as a stalled machine would. Returns a function that lets them go on. */
export function freezePostgres(postmaster: number): () => void {
  const stopped = new Set<number>()
  // The postmaster first, since it starts the others. A child that it has just started is found by the next listing.
  let running: readonly number[] = [postmaster]
  while (running.length > 0) {
    for (const pid of running) if (signal(pid, 'SIGSTOP')) stopped.add(pid)
    running = listChildren(postmaster).filter((pid) => !stopped.has(pid))
  }
  return () => {
    for (const pid of [...stopped].reverse()) signal(pid, 'SIGCONT')
  }
}

/** Whether the process was still there: it may end between the listing and the signal. */
function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    return false
  }
}

function listChildren(parent: number): readonly number[] {
  if (process.platform !== 'linux') return listByPs().flatMap(([pid, of]) => (of === parent ? [Number(pid)] : []))
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && readParent(name) === parent)
    .map(Number)
}

const listByPs = () =>
  spawnSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' })
    .stdout.trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))

function readParent(pid: string): number | undefined {
  try {
    // The program's name stands in parentheses and may hold spaces. The parent's id is the second field behind it.
    return Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ')[1])
  } catch {
    return undefined // it has just ended
  }
}
