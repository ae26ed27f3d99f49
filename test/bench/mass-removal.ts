import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Watched } from './open-changes.ts'
import type { Member } from './prepare-subjects.ts'
import { type Bench, quickPath, type Send } from './start-bench.ts'
import { findPercentile } from './statistics.ts'

/** One statement takes an organization from many members; durations in milliseconds. */
export type MassFigures = Readonly<{
  members: number
  /** From the commit to the end of each member's open exchange. */
  p99Ms: number
  maxMs: number
  /** Requests of other callers: 99th percentiles before the statement, and in the second after it. */
  othersBeforeMs: number
  othersAfterMs: number
}>

export type MassOptions = Readonly<{ giveUpMs: number; nowMs: () => number; signal: AbortSignal }>

/** Each of these callers asks at its own pace, whether the answer before has come or not. */
const everyMs = 20
const beforeMs = 5_000
const afterMs = 1_000

type Bystander = Readonly<{ send: Send; headers: Member['headers'] }>

/** Takes the organization from all members at once, while other callers go on asking at both replicas. */
export async function removeAtOnce(
  { database, world, changing, watching }: Bench,
  {
    members,
    watched,
    others,
  }: Readonly<{
    members: readonly Member[]
    watched: readonly Watched[]
    others: readonly Member[]
  }>,
  { giveUpMs, nowMs, signal }: MassOptions,
): Promise<MassFigures> {
  const callers = others.map(({ headers }, index) => ({ send: index % 2 === 0 ? changing : watching, headers }))
  await askFor(callers, 500, nowMs, signal)
  const before = await askFor(callers, beforeMs, nowMs, signal)
  const after = askFor(callers, afterMs, nowMs, signal)
  await remove(database, world.organizations.acme.id, members)
  const committedAtMs = nowMs()
  const gaveUp = sleep(giveUpMs, Number.POSITIVE_INFINITY, { ref: false })
  const endedAtMs = await Promise.all(watched.map(({ ended }) => Promise.race([ended, gaveUp])))
  const tookMs = endedAtMs.map((atMs) => Math.min(giveUpMs, Math.max(0, atMs - committedAtMs)))
  return {
    members: members.length,
    p99Ms: roundMs(findPercentile(tookMs, 0.99)),
    maxMs: roundMs(findPercentile(tookMs, 1)),
    othersBeforeMs: roundMs(findPercentile(before, 0.99)),
    othersAfterMs: roundMs(findPercentile(await after, 0.99)),
  }
}

const remove = (database: pg.Client, organization: number, members: readonly Member[]) =>
  database.query('delete from role_assignments where organization_id = $1 and user_id = any($2::int[])', [
    organization,
    members.map(({ userId }) => userId),
  ])

async function askFor(
  callers: readonly Bystander[],
  durationMs: number,
  nowMs: () => number,
  signal: AbortSignal,
): Promise<readonly number[]> {
  const tookMs: number[] = []
  const asked: Promise<void>[] = []
  const ask = async ({ send, headers }: Bystander): Promise<void> => {
    const startedMs = nowMs()
    const status = await send({ path: quickPath, headers })
    if (status !== 200) throw new Error(`a caller who keeps its rights was answered with ${status}`)
    tookMs.push(nowMs() - startedMs)
  }
  const untilMs = nowMs() + durationMs
  for (let turn = 0; nowMs() < untilMs; turn++) {
    const caller = callers[turn % callers.length]
    if (caller) asked.push(ask(caller))
    await sleep(everyMs / callers.length, undefined, { signal })
  }
  await Promise.all(asked)
  return tookMs
}

const roundMs = (ms: number): number => Math.round(ms * 100) / 100
