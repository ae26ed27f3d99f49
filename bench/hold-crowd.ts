// The client of the streams that bench:revocation ends at once. It has a process of its own with less of the processor,
// since its machine is not the gateway's.
import { withOwner } from '../test/support/owner.ts'
import { openExchanges } from './open-changes.ts'
import type { Member } from './prepare-subjects.ts'
import { systemMs } from './scripts.ts'

/** An order to open the streams is answered with their number, and the time until which ends count with those ends. */
export type CrowdMessage =
  | Readonly<{ origins: readonly string[]; members: readonly Member[] }>
  | Readonly<{ giveUpAtMs: number }>

await withOwner(async (owner) => {
  let ended: readonly Promise<number>[] = []
  process.on('message', (message: CrowdMessage) => {
    const answered = 'giveUpAtMs' in message ? awaitEnds(ended, message.giveUpAtMs) : open(message)
    void answered.then((answer) => process.send?.(answer))
  })
  const open = async ({ origins, members }: Extract<CrowdMessage, { members: unknown }>): Promise<number> => {
    const subjects = members.map(({ headers }) => ({ path: '/datasets', headers }))
    const watched = await openExchanges(owner, origins, subjects, systemMs)
    ended = watched.map((stream) => stream.ended)
    return ended.length
  }
  await new Promise((end) => process.on('disconnect', end))
})

async function awaitEnds(ended: readonly Promise<number>[], giveUpAtMs: number): Promise<readonly number[]> {
  const gaveUp = new Promise<number>((resolve) => {
    setTimeout(() => resolve(giveUpAtMs), Math.max(0, giveUpAtMs - systemMs())).unref()
  })
  return Promise.all(ended.map((end) => Promise.race([end, gaveUp])))
}
