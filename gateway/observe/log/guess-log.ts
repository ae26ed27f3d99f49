import type { Log } from './log.ts'

/** One line a minute tells that an address still guesses, however fast. */
const minuteMs = 60_000

/** A botnet of more addresses is one count: at most 17 lines a second, and a bounded map. */
const addressesPerMinute = 1_000

export function createGuessLog(log: Pick<Log, 'warn'>, monotonicMs: () => number): (owner: string) => void {
  let tried = new Map<string, number>()
  let others = 0
  let beganMs = Number.NEGATIVE_INFINITY
  const tell = (clientAddress: string, unknownTokens: number): void =>
    log.warn({ clientAddress, unknownTokens }, 'unknown tokens tried')
  const beginMinute = (): void => {
    const counted = [...tried].filter(([, count]) => count > 0)
    for (const [owner, count] of counted) tell(owner, count)
    if (others > 0) tell('others', others)
    tried = new Map(counted.map(([owner]) => [owner, 0]))
    others = 0
  }
  return (owner) => {
    const nowMs = monotonicMs()
    if (nowMs - beganMs >= minuteMs) {
      beginMinute()
      beganMs = nowMs
    }
    const count = tried.get(owner)
    if (count !== undefined) tried.set(owner, count + 1)
    else if (tried.size < addressesPerMinute) {
      tried.set(owner, 0)
      tell(owner, 1)
    } else others += 1
  }
}
