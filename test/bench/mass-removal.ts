import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type pg from 'pg'
import type { Owner } from '../support/owner.ts'
import type { AskerMessage } from './ask-others.ts'
import type { Watched } from './open-changes.ts'
import type { Member } from './prepare-subjects.ts'
import type { Bench } from './start-bench.ts'
import { findPercentile } from './statistics.ts'

/** One statement takes an organization from many members; durations in milliseconds. */
export type MassFigures = Readonly<{
  members: number
  /** From the commit to the end of each member's open exchange. */
  p99Ms: number
  maxMs: number
  /** Requests of other callers: 99th percentiles before the statement, and in the second from its start. */
  othersBeforeMs: number
  othersAfterMs: number
}>

type Crowd = Readonly<{ members: readonly Member[]; watched: readonly Watched[]; others: readonly Member[] }>

export type MassOptions = Readonly<{ giveUpMs: number; nowMs: () => number }>

const warmUpMs = 1_000
const beforeMs = 5_000
const afterMs = 1_000

/** Takes the organization from all members at once, while other callers go on asking at both replicas. */
export async function removeAtOnce(
  owner: Owner,
  { database, world, origins }: Bench,
  { members, watched, others }: Crowd,
  { giveUpMs, nowMs }: MassOptions,
): Promise<MassFigures> {
  const askFor = startAsking(owner, origins, others)
  await askFor(warmUpMs)
  const before = await askFor(beforeMs)
  const after = askFor(afterMs)
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

function startAsking(owner: Owner, origins: readonly string[], members: readonly Member[]) {
  const script = fileURLToPath(new URL('ask-others.ts', import.meta.url))
  const child = fork(script, { execArgv: [`--import=${new URL('typescript.js', import.meta.url)}`] })
  owner.teardown(() => child.kill())
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`the other callers ended with ${code}`)
  })
  ended.catch(() => undefined)
  const tell = (message: AskerMessage): void => void child.send(message)
  tell({ origins, members })
  return async (durationMs: number): Promise<readonly number[]> => {
    const answered = once(child, 'message')
    tell(durationMs)
    return (await Promise.race([answered, ended]))[0] as readonly number[]
  }
}

const roundMs = (ms: number): number => Math.round(ms * 100) / 100
