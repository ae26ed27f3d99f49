import { lookup as lookupSystem } from 'node:dns'
import { guarded } from '../../fault/guarded.ts'

export type Address = Readonly<{ address: string; family: number }>

type Answer = (error: NodeJS.ErrnoException | null, addresses: readonly Address[]) => void

/** Asks for all addresses of a name. */
export type ResolveName = (name: string, answer: Answer) => void

/** Asks the system, so that /etc/hosts counts. */
const askSystem: ResolveName = (name, answer) => lookupSystem(name, { all: true, verbatim: true }, answer)

export type Resolver = Readonly<{
  /** A doubtful lookup may take the system's whole time-out; others never wait for the last slot behind it. */
  resolve: (name: string, isDoubtful: boolean, answer: Answer) => void
}>

/** libuv gives lookups half of its threads, so that files and keys never wait for a name server; the rest of them queue. */
const countSlots = (): number => {
  const threads = Number(process.env.UV_THREADPOOL_SIZE ?? 4)
  return Number.isInteger(threads) && threads > 0 ? Math.floor((threads + 1) / 2) : 2
}

/**
 * Asks for so many names at once as the system can, and leaves one place that no doubtful lookup takes. A lookup cannot be
 * called off: with a silent name server each holds its thread for 10 s (resolv.conf(5): 5 s, two attempts).
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
    resolve: (name, isDoubtful, answer) => {
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
