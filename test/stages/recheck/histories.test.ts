import { mock } from 'node:test'
import fc from 'fast-check'
import t from 'tap'
import { createCachedDirectory } from '../../../gateway/directory/cache/cached-directory.ts'
import { createFreshness } from '../../../gateway/directory/cache/freshness.ts'
import type { Change } from '../../../gateway/directory/change.ts'
import { type Directory, nameIdentity, type TokenRecord } from '../../../gateway/directory/directory.ts'
import type { Login, Logout } from '../../../gateway/directory/logout.ts'
import { followLogouts } from '../../../gateway/directory/logouts/follow-logouts.ts'
import { LogoutTable } from '../../../gateway/directory/logouts/logout-table.ts'
import type { Exchange } from '../../../gateway/http/exchange.ts'
import { requireUsable } from '../../../gateway/stages/authenticate/api-token.ts'
import { type Principal, toTokenPrincipal } from '../../../gateway/stages/authenticate/principal.ts'
import type { OpenExchange } from '../../../gateway/stages/recheck/open-exchange.ts'
import { OpenExchanges } from '../../../gateway/stages/recheck/recheck.ts'
import { compileRoutes } from '../../../gateway/stages/route/table.ts'
import { drawNumbers } from '../../support/event-streams.ts'
import { noConsultation, openAs, roles, route, TestProof, tokenOf } from '../../support/open-exchange.ts'

// Random histories over two replicas, each with its caches, and a model that knows every right at once. The caches, the
// decision, the followed logouts and the list of open exchanges are the real ones. Database, network and clock are the
// test's. The specification:
//
// 1. A token has a right while it is stored and its user is a member; a session, until the first logout after its login.
// 2. A replica permits nothing while its policy forbids the route.
// 3. Nothing is open more than 1,000 ms after the end of its right, whether changes are heard or not, and facts read or not.
// 4. Nothing ends whose right has stood since a second before it opened, unless the database was down.
// 5. Nothing ends that its client has left, and it is in no list.
// 6. Each request gets its verdict.

const ids = [1, 2] as const
const replicas = [0, 1] as const
const stepMs = 10
const boundMs = 1_000
const filter = { userId: null, organizationId: null, tokenId: null, route: null, requestId: null }
const all = { filter, after: undefined, limit: 1_000 }

type Id = (typeof ids)[number]

/** An old session began before the history, and a new one begins with its request. */
type Credential = 'token' | 'old session' | 'new session'
type Step = Readonly<
  | { kind: 'revoke' | 'restore' | 'leave' | 'join'; id: Id }
  | { kind: 'open'; replica: number; id: Id; by: Credential }
  | { kind: 'logout'; id: Id }
  | { kind: 'depart'; nth: number }
  | { kind: 'permit' | 'forbid' | 'deafen' | 'hear'; replica: number }
  | { kind: 'fail' | 'recover' }
>

const id = fc.constantFrom(...ids)
const replica = fc.constantFrom(...replicas)
const credential = fc.constantFrom<Credential>('token', 'token', 'old session', 'new session')
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constantFrom('revoke', 'restore', 'leave', 'join'), id }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('open'), replica, id, by: credential }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('logout'), id }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('depart'), nth: fc.nat(3) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('permit', 'forbid', 'deafen', 'hear'), replica }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('fail', 'recover') }) },
)
// Steps that are close together meet requests on their way.
const waits = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 4 }) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 60 }) },
)
const history = fc.array(fc.tuple(waits, step), { minLength: 5, maxLength: 40 })

/** Replies to promises that are due. Nothing here waits for a timer of the system. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

function createHistoryFixture(seed: number) {
  const draw = drawNumbers(seed)
  const world = { nowMs: 1_000, isDown: false, wasDown: false, logouts: [] as Logout[] }
  const rows = new Map<Id, { isThere: boolean; isMember: boolean }>(
    ids.map((id) => [id, { isThere: true, isMember: true }]),
  )
  const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
  const readRow = (id: number): TokenRecord | undefined => {
    return rows.get(id as Id)?.isThere ? { ...tokenOf(id), user: readUser(id) } : undefined
  }
  const readUser = (id: number) => {
    const { user } = tokenOf(id)
    return rows.get(id as Id)?.isMember ? user : { ...user, roles: [] }
  }
  /** A statement sees the data of one moment, some time before its answer arrives. */
  const ask = async <Answer>(read: () => Answer): Promise<Answer> => {
    await sleep(Math.floor(draw() * 2) * stepMs)
    if (world.isDown) {
      await sleep(100)
      throw new Error('the database is down')
    }
    const answer = read()
    await sleep((1 + Math.floor(draw() * 6)) * stepMs)
    return answer
  }
  return { world, rows, draw, sleep, readRow, readUser, ask }
}

type HistoryFixture = ReturnType<typeof createHistoryFixture>

const permitting = compileRoutes([route])
const forbidding = compileRoutes([{ ...route, destination: { kind: 'upstream', name: 'other' } }])

/** A replica with caches of its own, and with a source of changes that tells them late, or not at all. */
function startReplica({ world, draw, sleep, readRow, readUser, ask }: HistoryFixture) {
  const monotonicMs = (): number => world.nowMs
  const freshness = createFreshness(monotonicMs)
  const policy = { table: permitting, roles }
  const table = new LogoutTable()
  const recheck = new OpenExchanges({
    hasEnded: (login) => table.hasEnded(login),
    logoutsUnreadSinceMs: () => followed.unreadSinceMs(),
    ...noConsultation,
    endAtExpiry: 'websocket',
    maxLifeMs: 3_600_000,
    onUnknown: 'end',
    unknownMs: 300_000,
    policy: () => policy,
    readFacts: ({ tokens, identities }) =>
      ask(() => ({
        findResource: () => undefined,
        users: new Map(identities.map((one) => [nameIdentity(one), readUser(Number(one.subject))])),
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
  const lookups: Partial<Directory> = {
    findToken: (id) => ask(() => readRow(id)),
    findByIdentity: ({ subject }) => ask(() => readUser(Number(subject))),
  }
  const store = lookups as Directory // no more is asked
  const cached = createCachedDirectory(store, {
    maxEntries: 100,
    ttlMs: 60_000,
    freshness,
    onRead: () => undefined,
    announce: () => undefined,
    onForgotten: recheck.hear,
  })
  const endLogins = (logouts: readonly Logout[]): void => {
    if (logouts.filter((logout) => table.add(logout)).length > 0) recheck.endLogins()
  }
  const followed = followLogouts({
    readSince: (since) => ask(() => ({ horizon: world.logouts.length, logouts: world.logouts.slice(since) })),
    knownAt: freshness.knownAt,
    monotonicMs,
    isCovered: () => false,
    onLogouts: endLogins,
    onFailed: () => undefined,
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
    /** Refuses a login that has ended, once what is known of logouts is fresh. */
    requireLoggedIn: async (login: Login): Promise<void> => {
      await followed.requireFresh()
      if (table.hasEnded(login)) throw new Error('signed out')
    },
    tell: (change: Change) => void deliver(() => cached.forget(change)),
    /** A replica is told the logout itself, and looks for its record besides. */
    tellLogout: (logout: Logout) =>
      void deliver(() => {
        endLogins([logout])
        followed.look('changes')
      }),
    stop: (): void => {
      recheck.stop()
      followed.stop()
    },
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
      followed.look('start')
    },
    reload: (isPermitted: boolean): void => {
      policy.table = isPermitted ? permitting : forbidding
      recheck.recheckAll()
    },
  }
}

type Replica = ReturnType<typeof startReplica>
type Request = Readonly<{ id: Id; replica: number; loginAtMs: number | undefined }>
type Client = { leave: () => void; hasLeft: boolean }
type Delivery = Request & Readonly<{ entry: OpenExchange; client: Client; openedAtMs: number }>

const loginOf = (id: Id, issuedAt: number): Login => ({
  ...{ issuer: 'https://login.example', subject: String(id), address: undefined, session: undefined },
  ...{ issuedAt, isOverlong: false },
})

async function authenticate({ directory, requireLoggedIn }: Replica, { id, loginAtMs }: Request): Promise<Principal> {
  if (loginAtMs === undefined) {
    const { hash } = tokenOf(id)
    return toTokenPrincipal(requireUsable(await directory.findToken(id, hash, '::1'), { id, hash }, new Date(0)))
  }
  const login = loginOf(id, loginAtMs)
  await requireLoggedIn(login)
  const proof = new TestProof(id, { login })
  return proof.judge(await directory.findByIdentity(proof))
}

/** Opens an exchange as the pipeline does: facts, permit, place among the open ones, first byte. */
async function open(one: Replica, asked: Request, client: Client): Promise<OpenExchange | undefined> {
  const { recheck, policy, lookUp } = one
  const heard = recheck.countHeard()
  const { table } = policy
  try {
    const principal = await authenticate(one, asked)
    await lookUp()
    if (table !== permitting) return undefined
    const onEnd: Exchange['onEnd'] = (listener, target) => {
      client.leave = () => listener(false, target as never) // the target of this listener
      if (client.hasLeft) client.leave()
    }
    const caller = { principal, organizationId: asked.id }
    const entry = recheck.open(openAs({ caller }, table, { isAnswered: false, onEnd }), heard)
    if (entry.isNamed) await recheck.confirm(entry)
    return entry.end || client.hasLeft ? undefined : entry
  } catch {
    return undefined // refused
  }
}

/** The rights as they are, by replica and token: when each was there last, and since when without a gap. */
function watchRights({ world, rows }: HistoryFixture) {
  const isPermitted = [true, true]
  const create = () => new Map(ids.map((id) => [id, { lastMs: world.nowMs, sinceMs: world.nowMs }]))
  const rights = replicas.map(() => ({ token: create(), session: create() }))
  const look = (): void => {
    for (const replica of replicas)
      for (const id of ids) {
        const { isThere = false, isMember = false } = rows.get(id) ?? {}
        for (const by of ['token', 'session'] as const) {
          const right = rights[replica]?.[by].get(id)
          if (!right) continue
          if ((by === 'session' || isThere) && isMember && isPermitted[replica]) right.lastMs = world.nowMs
          else right.sinceMs = world.nowMs + stepMs
        }
      }
  }
  const find = ({ replica, id, loginAtMs }: Request) => {
    const right = rights[replica]?.[loginAtMs === undefined ? 'token' : 'session'].get(id) ?? { lastMs: 0, sinceMs: 0 }
    const ended = world.logouts.find(({ subject, at }) => subject === String(id) && at >= (loginAtMs ?? world.nowMs))
    if (loginAtMs === undefined || !ended) return right
    return { lastMs: Math.min(right.lastMs, ended.at), sinceMs: Number.POSITIVE_INFINITY }
  }
  return { isPermitted, look, find }
}

/** Makes the next step of a history happen, in the world and in the model. */
function take(
  step: Step,
  fixture: HistoryFixture,
  group: readonly Replica[],
  isPermitted: boolean[],
  clients: Clients,
): void {
  const { world, rows } = fixture
  switch (step.kind) {
    case 'fail':
    case 'recover':
      world.isDown = step.kind === 'fail'
      world.wasDown ||= world.isDown
      return
    case 'open': {
      const one = group[step.replica]
      if (one) clients.request(one, step)
      return
    }
    case 'depart':
      clients.depart(step.nth)
      return
    case 'logout': {
      if (world.isDown) return
      const logout = { ...loginOf(step.id, 0), session: '', at: world.nowMs, expiresAt: Number.POSITIVE_INFINITY }
      world.logouts.push(logout)
      for (const one of group) one.tellLogout(logout)
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

type Clients = ReturnType<typeof createClients>

function createClients({ world }: HistoryFixture) {
  const present: Client[] = []
  const deliveries: Delivery[] = []
  /** Those that had ended when the latest client left. */
  const ended = new Set<OpenExchange>()
  let unanswered = 0
  return {
    deliveries,
    ended,
    countUnanswered: () => unanswered,
    request: (one: Replica, { id, replica, by }: Step & Readonly<{ kind: 'open' }>): void => {
      const loginAtMs = by === 'token' ? undefined : by === 'old session' ? 0 : world.nowMs
      const client: Client = { leave: () => undefined, hasLeft: false }
      present.push(client)
      unanswered += 1
      void open(one, { id, replica, loginAtMs }, client).then((entry) => {
        unanswered -= 1
        if (entry) deliveries.push({ id, replica, loginAtMs, entry, client, openedAtMs: world.nowMs })
      })
    },
    depart: (nth: number): void => {
      const [client] = present.splice(-1 - nth, 1)
      if (!client) return
      for (const { entry } of deliveries) if (entry.end) ended.add(entry)
      client.hasLeft = true
      client.leave()
    },
  }
}

/** Plays a history, and tells in which ways the gateway differed from the model. */
async function playHistory(steps: readonly (readonly [number, Step])[], seed: number): Promise<readonly string[]> {
  const fixture = createHistoryFixture(seed)
  const { world } = fixture
  const group = replicas.map(() => startReplica(fixture))
  const rights = watchRights(fixture)
  const clients = createClients(fixture)
  const { deliveries, ended } = clients
  const faults: string[] = []
  const deliver = (delivery: Delivery): void => {
    const { entry, client, id, replica } = delivery
    if (client.hasLeft && entry.end && !ended.has(entry))
      faults.push(`an exchange of ${id} ended after its client had left`)
    if (client.hasLeft) return
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
    take(step, fixture, group, rights.isPermitted, clients)
    await settle()
  }
  for (let count = 0; count < 200; count += 1) await pass()
  if (clients.countUnanswered() > 0) faults.push('a request without a verdict')
  for (const { recheck, stop } of group) {
    stop()
    const left = (await recheck.list(all)).exchanges.length
    const open = deliveries.filter(
      ({ entry, client, replica }) => group[replica]?.recheck === recheck && !client.hasLeft && !entry.end,
    )
    if (left !== open.length) faults.push(`${left} listed, and ${open.length} open`)
  }
  // A database that is down verifies no right.
  if (world.wasDown) return faults
  const lost = deliveries.filter((one) => one.entry.end && rights.find(one).sinceMs < one.openedAtMs - boundMs)
  return [...faults, ...lost.map(({ id, replica }) => `an exchange of ${id} at ${replica}, which was permitted, ended`)]
}

t.test('no event is delivered more than a second after its right was gone, and no permitted one is lost', async (t) => {
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const numRuns = Number(process.env.CAMPAIGN) || 400
  const seed = Number(process.env.SEED) || 1
  const property = fc.asyncProperty(history, fc.integer(), async (steps, draws) => {
    const faults = await playHistory(steps, draws)
    if (faults.length > 0) throw new Error(faults.slice(0, 3).join('; '))
  })
  await fc.assert(property, { numRuns, seed })
})
