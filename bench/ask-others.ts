// The other callers of bench:revocation, in a process of their own, so that the ends of a thousand streams at their client
// do not count.
import { setTimeout as sleep } from 'node:timers/promises'
import { withOwner } from '../test/support/owner.ts'
import type { Member } from './prepare-subjects.ts'
import { openSend, quickPath, type Send } from './start-bench.ts'

/** A number of milliseconds asks for as long, and is answered with the milliseconds of each request. */
export type AskerMessage = Readonly<{ origins: readonly string[]; members: readonly Member[] }> | number

type Caller = Readonly<{ send: Send; headers: Member['headers'] }>

/** Requests of all callers, whether the answers before have come or not. */
const perSecond = 400

await withOwner(async (owner) => {
  let callers: readonly Caller[] = []
  process.on('message', (message: AskerMessage) => {
    if (typeof message === 'number') {
      void askFor(callers, message).then((tookMs) => process.send?.(tookMs))
      return
    }
    const { origins, members } = message
    const sends = origins.map((origin) => openSend(owner, origin))
    callers = members.flatMap(({ headers }) => sends.map((send) => ({ send, headers })))
    process.send?.([])
  })
  await new Promise((end) => process.on('disconnect', end))
})

async function askFor(callers: readonly Caller[], durationMs: number): Promise<readonly number[]> {
  const tookMs: number[] = []
  const asked: Promise<void>[] = []
  const ask = async ({ send, headers }: Caller): Promise<void> => {
    const startedMs = performance.now()
    const status = await send({ path: quickPath, headers })
    if (status !== 200) throw new Error(`a caller who keeps its rights was answered with ${status}`)
    tookMs.push(performance.now() - startedMs)
  }
  const startedMs = performance.now()
  for (let passedMs = 0; passedMs < durationMs; passedMs = performance.now() - startedMs) {
    while (asked.length < (passedMs * perSecond) / 1_000) {
      const caller = callers[asked.length % callers.length]
      if (caller) asked.push(ask(caller))
    }
    await sleep(2)
  }
  await Promise.all(asked)
  return tookMs
}
