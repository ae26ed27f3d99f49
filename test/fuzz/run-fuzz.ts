import fc from 'fast-check'
import type { World } from '../../gateway/demo/world.ts'
import type { Owner } from '../support/owner.ts'
import { startReplica } from '../support/replicas.ts'
import { judge } from './judge.ts'
import { startJudgingBackend } from './judging-backend.ts'
import { type Caller, type FuzzRequest, fuzzRequests, toBytes } from './requests.ts'
import { openSender } from './sender.ts'

export type FuzzOptions = Readonly<{
  seed: number
  /** Ends after so many requests, or when the clock says so. */
  requests: number
  isTimeUp: () => boolean
  clients: number
}>

export type Violation = Readonly<{ what: string; sent: string | undefined; arrived: string }>

export type FuzzReport = Readonly<{
  requests: number
  arrived: number
  /** How many answers had which status. */
  statuses: ReadonlyMap<number, number>
  violations: readonly Violation[]
}>

/** Requests of one seed come in portions of this size, each with a seed of its own. */
const portion = 500

/** Sends generated requests through a gateway in a process of its own, and judges everything that comes out. */
export async function runFuzz(owner: Owner, world: World['description'], options: FuzzOptions): Promise<FuzzReport> {
  const pending = new Map<string, FuzzRequest>()
  const violations: Violation[] = []
  let arrived = 0
  const backend = await startJudgingBackend(owner, (arrival, bytes) => {
    arrived += 1
    const mark = arrival?.headers.find(([name]) => name.toLowerCase() === 'x-mark')?.[1]
    const sent = mark === undefined ? undefined : pending.get(mark)
    const problems = arrival ? judge(arrival, sent) : ['the backend could not read it']
    for (const what of problems)
      violations.push({
        what,
        sent: sent && toBytes(sent, mark ?? '').toString('latin1'),
        arrived: bytes.toString('latin1'),
      })
  })
  const upstreams = Object.fromEntries(
    ['platform', 'agents', 'files', 'graphql', 'data'].map((name) => [name, { url: backend }]),
  )
  const replica = await startReplica(owner, { world, upstreams, settings: { log: { level: 'error' } } })
  const arbitrary = fuzzRequests(callersOf(world))
  const statuses = new Map<number, number>()
  let requests = 0
  let portions = 0
  let waiting: FuzzRequest[] = []
  const next = (): FuzzRequest | undefined => {
    if (requests >= options.requests || options.isTimeUp() || violations.length > 0) return undefined
    if (waiting.length === 0) {
      waiting = fc.sample(arbitrary, { numRuns: portion, seed: options.seed + portions })
      portions += 1
    }
    return waiting.pop()
  }
  const work = async (): Promise<void> => {
    const send = openSender(owner, replica.public)
    for (let request = next(); request; request = next()) {
      const mark = `m${requests}`
      requests += 1
      pending.set(mark, request)
      for (const status of await send(toBytes(request, mark))) {
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
        // A refusal that nobody meant is a fault, even where nothing gets through.
        if (status === 500 || status > 501)
          violations.push({ what: `answered ${status}`, sent: toBytes(request, mark).toString('latin1'), arrived: '' })
      }
      pending.delete(mark)
    }
  }
  await Promise.all(Array.from({ length: options.clients }, work))
  const code = await replica.stop()
  if (code !== 0)
    violations.push({ what: `the gateway ended with ${code}`, sent: undefined, arrived: replica.readLog() })
  return { requests, arrived, statuses, violations }
}

/** None of them may see /admin. */
function callersOf({ users, serviceAccounts }: World['description']): readonly Caller[] {
  const { member, client, admin } = users
  const people = Object.entries({ member, client, admin }).map(
    ([name, { id, jwt }]): Caller => ({ name, header: ['x-oauth-access-token', jwt], userId: id }),
  )
  const { id, apiKey } = serviceAccounts.robot
  return [...people, { name: 'robot', header: ['Authorization', `Bearer ${apiKey}`], userId: id }]
}
