import { requestMs } from './budget.ts'

/**
 * A request is confirmed once. Its verdict takes effect later than its facts were read: when the head is written, or the
 * answer of the decision listener. If a change came between, it is judged again on facts of now, and that verdict counts
 * for `requestMs` whatever comes meanwhile. A tenant can make changes without an end, and would keep it waiting otherwise.
 *
 * The later change is felt anyway. An open exchange stays named and is judged within the second. An answer of the
 * decision listener has no life of its own.
 *
 * | Asked by | Judged again when | By |
 * |---|---|---|
 * | the pipeline, before a head is written | a change may concern the exchange | `OpenExchanges.confirm` |
 * | a proxy, of the decision listener | a change may concern the permit | `confirmOnce` |
 * | a program, by AuthZEN | its answer took longer than `requestMs`, since nothing is open to be named | `confirmOnce` |
 */
export async function confirmOnce<Verdict>(
  judge: () => Promise<Verdict>,
  isOutdated: (verdict: Verdict) => boolean,
  judgeAgain: (first: Verdict) => Promise<Verdict>,
): Promise<Verdict> {
  const verdict = await judge()
  return isOutdated(verdict) ? judgeAgain(verdict) : verdict
}

/** Whether a verdict on facts of that moment may take effect without another look. */
export const stillCounts = (factsAtMs: number, nowMs: number): boolean => nowMs - factsAtMs <= requestMs
