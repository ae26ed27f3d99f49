import { lookup as lookupSystem } from 'node:dns'
import { guarded } from '../../base/fault/guarded.ts'

export type Address = Readonly<{ address: string; family: number }>

type Answer = (error: NodeJS.ErrnoException | null, addresses: readonly Address[]) => void

export type ResolveName = (name: string, answer: Answer) => void

const askSystem: ResolveName = (name, answer) => lookupSystem(name, { all: true, verbatim: true }, answer)

export type LookupFacts = Readonly<{
  /** Whether it may take the whole time-out of the system. The last slot is kept free of such lookups. */
  isDoubtful: boolean
  /** The organization whose name it is, or empty for the configuration's. */
  owner: string
}>

export type Resolver = Readonly<{ resolve: (name: string, facts: LookupFacts, answer: Answer) => void }>

/**
 * libuv gives lookups half of its threads, so that files and keys never wait for a name server. Further lookups queue.
 */
const countSlots = (): number => {
  const threads = Number(process.env.UV_THREADPOOL_SIZE ?? 4)
  return Number.isInteger(threads) && threads > 0 ? Math.floor((threads + 1) / 2) : 2
}

/**
 * Asks for as many names at once as the system can, and keeps one slot free of doubtful lookups. A lookup cannot be
 * cancelled, and with a silent name server it holds its thread for 10 s (resolv.conf(5): 5 s, two attempts).
 */
export function createResolver(ask: ResolveName = askSystem, slots: number = countSlots()): Resolver {
  const queues = { sure: [] as (() => void)[], doubtful: [] as (() => void)[] }
  const mostDoubtful = Math.max(1, slots - 1)
  let running = 0
  let doubtfulRunning = 0
  const start = (): void => {
    while (running < slots) {
      const next = queues.sure.shift() ?? (doubtfulRunning < mostDoubtful ? queues.doubtful.shift() : undefined)
      if (!next) return
      next()
    }
  }
  return {
    resolve: (name, { isDoubtful }, answer) => {
      const run = (): void => {
        running += 1
        if (isDoubtful) doubtfulRunning += 1
        const hear: Answer = (error, addresses) => {
          running -= 1
          if (isDoubtful) doubtfulRunning -= 1
          start()
          answer(error, addresses)
        }
        ask(name, guarded('upstream', hear))
      }
      queues[isDoubtful ? 'doubtful' : 'sure'].push(run)
      start()
    },
  }
}
