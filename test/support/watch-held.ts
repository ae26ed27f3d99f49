import { readRss } from './process-figures.ts'

/** The most resident memory, in bytes, that a process had while `work` ran, by a look every 20 ms. */
export async function watchRss(pid: number, work: () => Promise<unknown>): Promise<number> {
  let highest = readRss(pid)
  const timer = setInterval(() => {
    highest = Math.max(highest, readRss(pid))
  }, 20)
  try {
    await work()
  } finally {
    clearInterval(timer)
  }
  return highest
}
