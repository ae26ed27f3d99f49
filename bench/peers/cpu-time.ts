import { readdirSync, readFileSync } from 'node:fs'

/** Processor time in microseconds, of processes with all their threads and living descendants. */
export const readCpuMicros = (pids: readonly number[]): number =>
  pids.flatMap(listTree).reduce((sum, pid) => sum + readProcess(pid), 0)

/** A process and its descendants. */
export function listTree(pid: number): readonly number[] {
  const children = listThreads(pid).flatMap((thread) => readNumbers(`/proc/${pid}/task/${thread}/children`))
  return [pid, ...children.flatMap(listTree)]
}

/** From `schedstat`, which counts nanoseconds: the ticks of `stat` are too coarse for a round of a few seconds. */
const readProcess = (pid: number): number =>
  listThreads(pid).reduce((sum, thread) => sum + (readNumbers(`/proc/${pid}/task/${thread}/schedstat`)[0] ?? 0), 0) /
  1_000

const listThreads = (pid: number): readonly string[] => unlessGone(() => readdirSync(`/proc/${pid}/task`)) ?? []

const readNumbers = (path: string): readonly number[] =>
  (unlessGone(() => readFileSync(path, 'utf8')) ?? '').split(' ').filter(Boolean).map(Number)

/** Threads and children come and go while they are read. */
function unlessGone<Result>(read: () => Result): Result | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}
