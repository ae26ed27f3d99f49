import { readRss } from './process-figures.ts'

/** Looks at a process again and again while something goes on; gives the most memory that it occupied. */
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
