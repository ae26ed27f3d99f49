import type pg from 'pg'
import type { Owner } from '../test/support/owner.ts'
import type { AskerMessage } from './ask-others.ts'
import type { CrowdMessage } from './hold-crowd.ts'
import type { Member } from './prepare-subjects.ts'
import { putElsewhere, startScript, systemMs } from './scripts.ts'
import type { Bench } from './start-bench.ts'
import { findPercentile } from './statistics.ts'

/** One statement takes an organization from many members, several times in turn; durations in milliseconds. */
export type MassFigures = Readonly<{
  members: number
  rounds: number
  /** From the commit to the end of each member's open exchange. */
  p99Ms: number
  maxMs: number
  /** Requests of other callers: 99th percentiles before each statement, and in the second from its start. */
  othersBeforeMs: number
  othersAfterMs: number
}>

export type Crowd = Readonly<{
  members: readonly Member[]
  awaitEnds: (giveUpMs: number) => Promise<readonly number[]>
}>

/** The slowest hundredth of a single second is four requests, which is chance. */
export const rounds = 5

const warmUpMs = 2_000
const beforeMs = 2_000
const afterMs = 1_000

/** Opens a stream for each member, whose client has a process of its own. */
export async function openCrowd(owner: Owner, origins: readonly string[], members: readonly Member[]): Promise<Crowd> {
  const { ask } = startScript(owner, 'hold-crowd.ts', 'elsewhere')
  const tell = (message: CrowdMessage): Promise<unknown> => ask(message)
  const count = await tell({ origins, members })
  if (count !== members.length) throw new Error(`${count} streams of ${members.length} opened`)
  return {
    members,
    awaitEnds: async (giveUpMs) => (await tell({ giveUpAtMs: systemMs() + giveUpMs })) as readonly number[],
  }
}

/** Takes the organization from a whole crowd at once, then from the next, while other callers go on asking at both replicas. */
export async function removeAtOnce(
  owner: Owner,
  { database, world, origins }: Bench,
  crowds: readonly Crowd[],
  others: readonly Member[],
  giveUpMs: number,
): Promise<MassFigures> {
  const { ask } = startScript(owner, 'ask-others.ts', 'ahead')
  // This process is the client of all other streams.
  putElsewhere(process.pid)
  const tell = async (message: AskerMessage) => (await ask(message)) as readonly number[]
  await tell({ origins, members: others })
  await tell(warmUpMs)
  const [tookMs, beforeTookMs, afterTookMs]: [number[], number[], number[]] = [[], [], []]
  for (const { members, awaitEnds } of crowds) {
    beforeTookMs.push(...(await tell(beforeMs)))
    const after = tell(afterMs)
    await remove(database, world.organizations.acme.id, members)
    const committedAtMs = systemMs()
    const endedAtMs = await awaitEnds(giveUpMs)
    tookMs.push(...endedAtMs.map((atMs) => Math.min(giveUpMs, Math.max(0, atMs - committedAtMs))))
    afterTookMs.push(...(await after))
  }
  return {
    members: crowds[0]?.members.length ?? 0,
    rounds: crowds.length,
    p99Ms: roundMs(findPercentile(tookMs, 0.99)),
    maxMs: roundMs(findPercentile(tookMs, 1)),
    othersBeforeMs: roundMs(findPercentile(beforeTookMs, 0.99)),
    othersAfterMs: roundMs(findPercentile(afterTookMs, 0.99)),
  }
}

const remove = (database: pg.Client, organization: number, members: readonly Member[]) =>
  database.query('delete from role_assignments where organization_id = $1 and user_id = any($2::int[])', [
    organization,
    members.map(({ userId }) => userId),
  ])

const roundMs = (ms: number): number => Math.round(ms * 100) / 100
