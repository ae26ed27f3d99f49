/** One change of rights under way, and how to ask whether it is felt. */
export type MeasuredChange = Readonly<{
  /** One request with the credential concerned; true while it is accepted. */
  ask: () => Promise<boolean>
  /** Resolves when the change is committed. */
  change: () => Promise<unknown>
  nowMs: () => number
}>

export type Effect = Readonly<{
  /** From the commit to the start of the first request that was refused; `giveUpMs` where none was. */
  tookMs: number
  /** Requests that were started after a refusal had been seen, and accepted nevertheless. */
  acceptedAfter: number
}>

/** A change that is not felt by then will not be waited for. */
export const giveUpMs = 10_000

/** Side by side, so that there is always one under way when the change comes. */
const loops = 2
/** Requests that must stay refused, right after the first refusal. */
const furtherRequests = 20

/** Asks without a pause, changes, and asks on until it has been refused for a while. */
export async function measureChange({ ask, change, nowMs }: MeasuredChange): Promise<Effect> {
  let committedAtMs = Number.POSITIVE_INFINITY
  let refusedFromMs = Number.POSITIVE_INFINITY
  let further = furtherRequests
  let acceptedAfter = 0
  const askOn = async (): Promise<void> => {
    while (further > 0) {
      const startedAtMs = nowMs()
      const isAfter = refusedFromMs < Number.POSITIVE_INFINITY
      if (!isAfter && startedAtMs - committedAtMs > giveUpMs) return
      if (isAfter) further -= 1
      if (!(await ask())) refusedFromMs = Math.min(refusedFromMs, startedAtMs)
      else if (isAfter) acceptedAfter += 1
    }
  }
  const commit = async (): Promise<void> => {
    await change()
    committedAtMs = nowMs()
  }
  try {
    await Promise.all([...Array.from({ length: loops }, askOn), commit()])
  } finally {
    further = 0 // where one of them failed, the others end as well
  }
  // A request under way at the commit may be refused already: then the change took no time.
  return { tookMs: Math.min(giveUpMs, Math.max(0, refusedFromMs - committedAtMs)), acceptedAfter }
}
