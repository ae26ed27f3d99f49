import { mock } from 'node:test'
import fc from 'fast-check'
import t from 'tap'
import { requireUsable } from '../../gateway/authenticate/api-token.ts'
import { createCachedDirectory } from '../../gateway/directory/cache/cached-directory.ts'
import { createFreshness } from '../../gateway/directory/cache/freshness.ts'
import type { Change } from '../../gateway/directory/change.ts'
import type { Directory, TokenRecord } from '../../gateway/directory/directory.ts'
import { noLogouts } from '../../gateway/directory/logout.ts'
import type { OpenExchange } from '../../gateway/recheck/open-exchange.ts'
import { OpenExchanges } from '../../gateway/recheck/recheck.ts'
import { compileRoutes } from '../../gateway/route/table.ts'
import { drawNumbers } from '../support/event-streams.ts'
import { noConsultation, openWith, roles, route, tokenOf } from '../support/open-exchange.ts'

// Random histories over two replicas, each with its caches, and a model that knows every right at once. The caches, the
// decision and the list of open exchanges are the real ones; database, network and clock are the test's.

const ids = [1, 2, 3] as const
const replicas = [0, 1] as const
const stepMs = 10
const boundMs = 1_000

type Id = (typeof ids)[number]
type Step = Readonly<
  | { kind: 'revoke' | 'restore' | 'leave' | 'join'; id: Id }
  | { kind: 'open'; replica: number; id: Id }
  | { kind: 'permit' | 'forbid' | 'deafen' | 'hear'; replica: number }
  | { kind: 'fail' | 'recover' }
>

const id = fc.constantFrom(...ids)
const replica = fc.constantFrom(...replicas)
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom('revoke', 'restore', 'leave', 'join'), id }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('open'), replica, id }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('permit', 'forbid', 'deafen', 'hear'), replica }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('fail', 'recover') }) },
)
// Steps that are close together meet requests on their way.
const waits = fc.oneof(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 60 }))
const history = fc.array(fc.tuple(waits, step), { minLength: 5, maxLength: 40 })

/** Replies to promises that are due. Nothing here waits for a timer of the system. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

function createHistoryFixture(seed: number) {
  const draw = drawNumbers(seed)
  const world = { nowMs: 1_000, isDown: false, wasDown: false }
  const rows = new Map<Id, { isThere: boolean; isMember: boolean }>(
    ids.map((id) => [id, { isThere: true, isMember: true }]),
  )
  const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
  const readRow = (id: number): TokenRecord | undefined => {
    const row = rows.get(id as Id)
    const record = tokenOf(id)
    if (!row?.isThere) return undefined
    return row.isMember ? record : { ...record, user: { ...record.user, roles: [] } }
  }
  /** A statement sees the data of one moment, some time before its answer arrives. */
  const ask = async <Answer>(read: () => Answer): Promise<Answer> => {
    await sleep(Math.floor(draw() * 2) * stepMs)
    if (world.isDown) {
      await sleep(100)
      throw new Error('the database is down')
    }
    const answer = read()
    await sleep(stepMs)
    return answer
  }
  return { world, rows, draw, sleep, readRow, ask }
}

type HistoryFixture = ReturnType<typeof createHistoryFixture>

const permitting = compileRoutes([route])
const forbidding = compileRoutes([{ ...route, destination: { kind: 'upstream', name: 'other' } }])

/** A replica with caches of its own, and with a source of changes that tells them late, or not at all. */
function startReplica({ world, draw, sleep, readRow, ask }: HistoryFixture) {
  const monotonicMs = (): number => world.nowMs
  const freshness = createFreshness(monotonicMs)
  const policy = { table: permitting, roles }
  const recheck = new OpenExchanges({
    hasEnded: noLogouts.hasEnded,
    ...noConsultation,
    endAtExpiry: 'websocket',
    maxLifeMs: 3_600_000,
    onUnknown: 'end',
    unknownMs: 300_000,
    policy: () => policy,
    readFacts: ({ tokens }) =>
      ask(() => ({
        findResource: () => undefined,
        users: new Map(),
        tokens: new Map(
          tokens.flatMap((id) => {
            const record = readRow(id)
            return record ? [[id, record] as const] : []
          }),
        ),
        agents: new Map(),
        clusters: new Map(),
      })),
    knownAt: freshness.knownAt,
    now: () => new Date(world.nowMs),
    monotonicMs,
    processId: 1,
    onRound: () => undefined,
    onEnded: () => undefined,
    onUnread: () => undefined,
  })
  const store = { findToken: (id: number) => ask(() => readRow(id)) } as Partial<Directory> as Directory // no more is asked
  const cached = createCachedDirectory(store, {
    maxEntries: 100,
    ttlMs: 60_000,
    freshness,
    onRead: () => undefined,
    announce: () => undefined,
    onForgotten: recheck.hear,
  })
  let isDeaf = false
  // Messages arrive in their order, the syncs among them.
  let lastAtMs = 0
  const deliver = async (work: () => void): Promise<void> => {
    if (isDeaf) return
    lastAtMs = Math.max(lastAtMs, world.nowMs + Math.floor(draw() * 5) * stepMs)
    await sleep(lastAtMs - world.nowMs)
    if (!isDeaf) work()
  }
  return {
    recheck,
    policy,
    directory: cached.directory,
    /** Another lookup of the request. */
    lookUp: () => sleep(Math.floor(draw() * 4) * stepMs),
    tell: (change: Change) => void deliver(() => cached.forget(change)),
    sync: () => {
      const askedAtMs = world.nowMs
      void deliver(() => freshness.markSynced(askedAtMs))
    },
    deafen: (): void => {
      isDeaf = true
    },
    hear: (): void => {
      if (!isDeaf) return
      isDeaf = false
      cached.forget({ kind: 'everything' })
    },
    reload: (isPermitted: boolean): void => {
      policy.table = isPermitted ? permitting : forbidding
      recheck.recheckAll()
    },
  }
}

type Replica = ReturnType<typeof startReplica>
type Delivery = Readonly<{ entry: OpenExchange; id: Id; replica: number; openedAtMs: number }>

/** Opens an exchange as the pipeline does: facts, permit, place among the open ones, first byte. */
async function request({ recheck, directory, policy, lookUp }: Replica, id: Id): Promise<OpenExchange | undefined> {
  const heard = recheck.countHeard()
  const { table } = policy
  try {
    const { hash } = tokenOf(id)
    const record = requireUsable(await directory.findToken(id, hash, '::1'), { id, hash }, new Date(0))
    await lookUp()
    const entry = recheck.open(openWith(record, table, { isAnswered: false, reset: () => undefined }), heard)
    if (entry.upstreamName !== 'backend' || table !== permitting) return undefined
    if (entry.isNamed) await recheck.confirm(entry)
    return entry.end ? undefined : entry
  } catch {
    return undefined // refused
  }
}

/** The rights as they are, by replica and token: when each was there last, and since when without a gap. */
function watchRights({ world, rows }: HistoryFixture) {
  const isPermitted = [true, true]
  const rights = replicas.map(() => new Map(ids.map((id) => [id, { lastMs: world.nowMs, sinceMs: world.nowMs }])))
  const look = (): void => {
    for (const replica of replicas)
      for (const id of ids) {
        const row = rows.get(id)
        const right = rights[replica]?.get(id)
        if (!right) continue
        if (row?.isThere && row.isMember && isPermitted[replica]) right.lastMs = world.nowMs
        else right.sinceMs = world.nowMs + stepMs
      }
  }
  const find = ({ replica, id }: Delivery) => rights[replica]?.get(id) ?? { lastMs: 0, sinceMs: 0 }
  return { isPermitted, look, find }
}

/** Makes the next step of a history happen, in the world and in the model. */
function take(
  step: Step,
  { world, rows }: HistoryFixture,
  group: readonly Replica[],
  isPermitted: boolean[],
  note: Note,
): void {
  switch (step.kind) {
    case 'fail':
    case 'recover':
      world.isDown = step.kind === 'fail'
      world.wasDown ||= world.isDown
      return
    case 'open': {
      const { id, replica } = step
      const one = group[replica]
      void (one && request(one, id))?.then((entry) => entry && note({ entry, id, replica, openedAtMs: world.nowMs }))
      return
    }
    case 'permit':
    case 'forbid':
      isPermitted[step.replica] = step.kind === 'permit'
      group[step.replica]?.reload(step.kind === 'permit')
      return
    case 'deafen':
    case 'hear':
      group[step.replica]?.[step.kind]()
      return
    default: {
      const row = rows.get(step.id)
      if (!row || world.isDown) return
      const isOfToken = step.kind === 'revoke' || step.kind === 'restore'
      if (isOfToken) row.isThere = step.kind === 'restore'
      else row.isMember = step.kind === 'join'
      for (const one of group) one.tell({ kind: isOfToken ? 'token' : 'user', id: step.id })
    }
  }
}

type Note = (delivery: Delivery) => void

/** Plays a history, and tells in which ways the gateway differed from the model. */
async function playHistory(steps: readonly (readonly [number, Step])[], seed: number): Promise<readonly string[]> {
  const fixture = createHistoryFixture(seed)
  const { world } = fixture
  const group = replicas.map(() => startReplica(fixture))
  const rights = watchRights(fixture)
  const deliveries: Delivery[] = []
  const faults: string[] = []
  const deliver = (delivery: Delivery): void => {
    const { entry, id, replica } = delivery
    const goneMs = world.nowMs - rights.find(delivery).lastMs
    if (!entry.end && goneMs > boundMs) faults.push(`an event of ${id} at ${replica}, ${goneMs} ms after the right`)
  }
  const pass = async (): Promise<void> => {
    world.nowMs += stepMs
    rights.look()
    mock.timers.tick(stepMs)
    await settle()
    if (world.nowMs % 200 === 0) for (const one of group) one.sync()
    for (const delivery of deliveries) deliver(delivery)
  }
  for (const [waits, step] of steps) {
    for (let count = 0; count < waits; count += 1) await pass()
    take(step, fixture, group, rights.isPermitted, (delivery) => deliveries.push(delivery))
    await settle()
  }
  for (let count = 0; count < 200; count += 1) await pass()
  for (const { recheck } of group) recheck.stop()
  // A database that is down verifies no right.
  if (world.wasDown) return faults
  const lost = deliveries.filter((one) => one.entry.end && rights.find(one).sinceMs < one.openedAtMs - boundMs)
  return [...faults, ...lost.map(({ id, replica }) => `an exchange of ${id} at ${replica}, which was permitted, ended`)]
}

t.test('no event is delivered more than a second after its right was gone, and no permitted one is lost', async (t) => {
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const numRuns = Number(process.env.CAMPAIGN) || 150
  const seed = Number(process.env.SEED) || 1
  const property = fc.asyncProperty(history, fc.integer(), async (steps, draws) => {
    const faults = await playHistory(steps, draws)
    if (faults.length > 0) throw new Error(faults.slice(0, 3).join('; '))
  })
  await fc.assert(property, { numRuns, seed })
})
