import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import type { Owner } from '../../test/support/owner.ts'
import { findPercentile } from '../statistics.ts'

export type HonestRequest = Readonly<{ path: string; headers: Readonly<Record<string, string>> }>

/** The responses to honest clients; a failure is any answer but 200, or none. */
export type Fared = Readonly<{
  p50Ms: number
  p99Ms: number
  failed: number
  asked: number
  failures: readonly string[]
}>

/** Clients of many addresses, none of which an attacker has. */
const addresses = Array.from({ length: 20 }, (_, index) => `127.0.1.${index + 1}`)

/** A request without an answer by then has failed. */
const patienceMs = 10_000

export type Honest = Readonly<{
  /** Asks so many times a second for so long. */
  ask: (next: () => HonestRequest, perSecond: number, seconds: number) => Promise<Fared>
}>

/** Opens the connections of those who ask. */
export function openHonest(owner: Owner, origin: string, interruption: AbortSignal): Honest {
  const pools = addresses.map((localAddress) => new Pool(origin, { connections: 4, connect: { localAddress } }))
  owner.teardown(() => Promise.all(pools.map((pool) => pool.destroy())))
  let turn = 0
  const askOne = async ({ path, headers }: HonestRequest): Promise<string | undefined> => {
    const pool = pools[turn++ % pools.length]
    const signal = AbortSignal.timeout(patienceMs)
    const answer = await pool?.request({ method: 'GET', path, headers: { ...headers }, signal })
    await answer?.body.dump()
    return answer?.statusCode === 200 ? undefined : `answered ${answer?.statusCode}`
  }
  return {
    ask: async (next, perSecond, seconds) => {
      const times: number[] = []
      const failures: string[] = []
      const asked: Promise<void>[] = []
      const startedMs = performance.now()
      for (let count = 0; count < perSecond * seconds; count += 1) {
        // Times count from when a request was due, whatever the one before it does.
        const dueMs = startedMs + (count * 1_000) / perSecond
        await sleep(Math.max(0, dueMs - performance.now()))
        interruption.throwIfAborted()
        asked.push(
          askOne(next()).then(
            (failure) => {
              times.push(performance.now() - dueMs)
              if (failure !== undefined) failures.push(failure)
            },
            (error: unknown) => {
              // It has waited for as long as it was there, and counts.
              times.push(performance.now() - dueMs)
              failures.push(error instanceof Error ? error.message || error.name : String(error))
            },
          ),
        )
      }
      await Promise.all(asked)
      return {
        p50Ms: findPercentile(times, 0.5),
        p99Ms: findPercentile(times, 0.99),
        failed: failures.length,
        asked: asked.length,
        failures: [...new Set(failures)],
      }
    },
  }
}

/** Asks the admin listener as a prober and a scraper do, until the work is done; resolves to the longest time of any answer. */
export async function probe(owner: Owner, admin: string, work: Promise<unknown>): Promise<number> {
  const pool = new Pool(admin, { connections: 2 })
  owner.teardown(() => pool.destroy())
  let isDone = false
  const done = work.finally(() => {
    isDone = true
  })
  done.catch(() => undefined) // reported by the code that awaits the work
  let longestMs = 0
  while (!isDone) {
    for (const path of ['/healthz', '/metrics']) {
      const startedMs = performance.now()
      try {
        const { statusCode, body } = await pool.request({
          method: 'GET',
          path,
          signal: AbortSignal.timeout(patienceMs),
        })
        await body.dump()
        if (statusCode !== 200) throw new Error(String(statusCode))
        longestMs = Math.max(longestMs, performance.now() - startedMs)
      } catch {
        longestMs = Number.POSITIVE_INFINITY
      }
    }
    await sleep(200)
  }
  return longestMs
}
