import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

/** Stops a server and all its processes, as a stalled machine would; returns what lets them go on. */
export function freezePostgres(postmaster: number): () => void {
  const stopped = new Set<number>()
  // First the one that starts the others; what it was about to start is seen at the second look.
  let running: readonly number[] = [postmaster]
  while (running.length > 0) {
    for (const pid of running) if (signal(pid, 'SIGSTOP')) stopped.add(pid)
    running = listChildren(postmaster).filter((pid) => !stopped.has(pid))
  }
  return () => {
    for (const pid of [...stopped].reverse()) signal(pid, 'SIGCONT')
  }
}

/** Whether the process was still there: any of them may end between being listed and being told. */
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
    // The name in parentheses may hold spaces; the parent is the second field behind it.
    return Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ')[1])
  } catch {
    return undefined // it has just ended
  }
}
