import fc from 'fast-check'
import type { World } from '../../demo/world.ts'
import type { Owner } from '../support/owner.ts'
import { startReplica } from '../support/replicas.ts'
import { judge, judgeByReference } from './judge.ts'
import { judgeAnswer } from './judge-answer.ts'
import { startJudgingBackend } from './judging-backend.ts'
import { type Plan, shippedPlan } from './plan.ts'
import { reportProgress } from './report-progress.ts'
import { type Caller, type FuzzRequest, fuzzRequests, toBytes } from './requests.ts'
import { openSender } from './sender.ts'

export type FuzzOptions = Readonly<{
  seed: number
  /** Ends after so many requests, or when the clock says so. */
  requests: number
  isTimeUp: () => boolean
  clients: number
  /** Says now and then how far it is. */
  isTalkative?: boolean
  plan?: Plan
}>

export type Violation = Readonly<{ what: string; sent: string | undefined; arrived: string }>

export type FuzzReport = Readonly<{
  requests: number
  arrived: number
  /** The number of answers of each status. */
  statuses: ReadonlyMap<number, number>
  violations: readonly Violation[]
  notes?: string
}>

/** Requests of one seed come in portions of this size, each with a seed of its own. */
const portion = 500

/** Sends generated requests through a gateway in a process of its own, and judges everything that comes out. */
export async function runFuzz(owner: Owner, world: World['description'], options: FuzzOptions): Promise<FuzzReport> {
  const { plan = shippedPlan } = options
  const pending = new Map<string, FuzzRequest>()
  const violations: Violation[] = []
  const checks = new Set<Promise<void>>()
  let arrived = 0
  const backend = await startJudgingBackend(owner, (arrival, bytes) => {
    arrived += 1
    const mark = arrival?.headers.find(([name]) => name.toLowerCase() === 'x-mark')?.[1]
    const sent = mark === undefined ? undefined : pending.get(mark)
    const problems = arrival ? judge(arrival, sent, plan) : ['the backend could not read it']
    const sentBytes = sent && toBytes(sent, mark ?? '')
    const report = (what: string): void =>
      void violations.push({ what, sent: sentBytes?.toString('latin1'), arrived: bytes.toString('latin1') })
    problems.forEach(report)
    if (!arrival || !sentBytes) return
    const check = judgeByReference(arrival, sentBytes, plan).then((found) => {
      found.forEach(report)
      checks.delete(check)
    })
    checks.add(check)
  })
  const { routes } = plan
  const replica = await startReplica(owner, {
    world,
    upstreams: plan.upstreams(backend),
    settings: { log: { level: 'error' }, database: patientDatabase(world) },
    ...(routes && { routes }),
  })
  const arbitrary = fuzzRequests(callersOf(world), plan)
  const statuses = new Map<number, number>()
  let requests = 0
  const generate = function* (): Generator<FuzzRequest> {
    for (let portions = 0; ; portions += 1)
      for (const request of fc.sample(arbitrary, { numRuns: portion, seed: options.seed + portions })) {
        if (requests >= options.requests || options.isTimeUp() || violations.length > 0) return
        yield request
      }
  }
  const generated = options.isTalkative ? reportProgress(generate(), `fuzz, seed ${options.seed}`) : generate()
  const work = async (): Promise<void> => {
    const send = openSender(owner, replica.public)
    for (let next = generated.next(); !next.done; next = generated.next()) {
      const request = next.value
      const mark = `m${requests}`
      requests += 1
      pending.set(mark, request)
      const bytes = toBytes(request, mark)
      for (const answer of await send(bytes)) {
        const { status } = answer
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
        // An unintended refusal is a fault, even if nothing gets through.
        const faults = status === 500 || status > 501 ? [`answered ${status}`] : []
        for (const what of [...faults, ...judgeAnswer(answer, isPublic(request.target))])
          violations.push({ what, sent: bytes.toString('latin1'), arrived: JSON.stringify(answer) })
      }
      pending.delete(mark)
    }
  }
  await Promise.all(Array.from({ length: options.clients }, work))
  await Promise.all(checks)
  const code = await replica.stop()
  if (code !== 0)
    violations.push({ what: `the gateway ended with ${code}`, sent: undefined, arrived: replica.readLog() })
  return { requests, arrived, statuses, violations }
}

/** On a busy machine a lookup takes a while, and a 503 would count as a fault. */
export const patientDatabase = ({ databaseUrl }: World['description']) => ({
  url: databaseUrl,
  connectTimeoutMs: 20_000,
  queryTimeoutMs: 20_000,
})

/** One of the shipped routes is open to all. */
const isPublic = (target: string): boolean => /\/status(?:\?|$)/i.test(target)

/** None of them may see /admin. */
export function callersOf({ users, serviceAccounts }: World['description']): readonly Caller[] {
  const { member, client, admin } = users
  const people = Object.entries({ member, client, admin }).map(
    ([name, { id, jwt }]): Caller => ({ name, header: ['x-oauth-access-token', jwt], userId: id }),
  )
  const { id, apiKey } = serviceAccounts.robot
  return [...people, { name: 'robot', header: ['Authorization', `Bearer ${apiKey}`], userId: id }]
}
