import t from 'tap'
import { GatewayError } from '../../../gateway/base/errors/gateway-error.ts'
import { type CacheName, createCachedDirectory } from '../../../gateway/directory/cache/cached-directory.ts'
import { createFreshness } from '../../../gateway/directory/cache/freshness.ts'
import type { ReadResult } from '../../../gateway/directory/cache/tagged-cache.ts'
import type { Change } from '../../../gateway/directory/change.ts'
import type {
  AuditContext,
  ClusterRecord,
  Directory,
  NewIdentity,
  OrganizationRecord,
  RoleAssignment,
  TokenRecord,
  UserRecord,
} from '../../../gateway/directory/directory.ts'
import type { ResourceKind } from '../../../gateway/policy/resource-kind.ts'

const nowMs = 1_800_000_000_000
const issuer = 'https://issuer.example'

const roleIn = (id: number): RoleAssignment => ({
  id,
  role: 'org-member',
  organization: { id, slug: `o-${id}`, accountType: 'team' },
})

const user = (id: number, ...organizations: readonly number[]): UserRecord => ({
  id,
  email: `${id}@demo.example`,
  emailVerified: false,
  username: null,
  firstName: null,
  lastName: null,
  fullName: null,
  userType: 'human',
  currentOrganizationId: null,
  roles: organizations.map(roleIn),
})

const token = (id: number, owner: UserRecord): TokenRecord => ({
  id,
  name: null,
  abilities: [],
  lastUsedAt: null,
  expiresAt: null,
  createdAt: null,
  hash: `hash-${id}`,
  user: owner,
  ancestors: [],
})

const organization = (id: number): OrganizationRecord => ({
  id,
  slug: `o-${id}`,
  accountType: 'team',
  name: 'O',
  description: null,
  logoUrl: null,
  websiteUrl: null,
  contactEmail: null,
  location: null,
  companySize: null,
  domain: null,
  isVerified: false,
  memberCount: 1,
  createdAt: new Date(0),
  updatedAt: new Date(0),
})

/** The id of an agent and a cluster that do not exist. */
const absentId = 99

const cluster = (id: number, lastHeartbeatAt: Date | null): ClusterRecord => ({
  id,
  organizationId: 1,
  slug: `c-${id}`,
  baseUrl: 'http://c',
  isSuspended: false,
  isDeleting: false,
  lastHeartbeatAt,
})

const identity = (subject: string): NewIdentity => ({
  issuer,
  subject,
  email: 'a@demo.example',
  username: null,
  firstName: null,
  lastName: null,
  linkByEmail: undefined,
  isEmailVerified: false,
})

const audit: AuditContext = {
  actorId: 1,
  credential: 'oauth',
  organizationId: null,
  clientAddress: '::1',
  requestId: 'r',
}

/** A store whose rows the test changes, in front of it the caches, and notes of what was asked and told. */
function holdDirectory() {
  const users = new Map<string, UserRecord>([
    ['one', user(1, 10, 20)],
    ['two', user(2, 20)],
    ['three', user(3)],
  ])
  const tokens = new Map([
    [101, token(101, user(1, 10, 20))],
    [102, token(102, user(2, 20))],
  ])
  const rows = {
    users,
    tokens,
    wrongSecrets: new Set<number>(),
    heartbeat: new Date(nowMs) as Date | null,
    revoked: true,
    isAgentPublic: false,
    isDown: false,
    verifies: true as boolean | undefined,
  }
  const asked: string[] = []
  const told: Change[] = []
  const reads: [CacheName, ReadResult][] = []
  const ask = async <Row>(question: string, row: () => Row): Promise<Row> => {
    asked.push(question)
    if (rows.isDown) throw new GatewayError('directory_unavailable')
    return row()
  }
  let clockMs = 0
  const freshness = createFreshness(() => clockMs)
  const store: Directory = {
    findByIdentity: ({ issuer: of, subject }) => ask(`user ${of} ${subject}`, () => users.get(subject)),
    createByIdentity: ({ subject }) => ask(`create ${subject}`, () => users.get(subject) ?? user(99)),
    verifyEmail: (id) => ask(`verify ${id}`, () => rows.verifies),
    findToken: (id) => ask(`token ${id}`, () => (rows.wrongSecrets.has(id) ? 'wrong-secret' : tokens.get(id))),
    findOrganization: (id) => ask(`organization ${id}`, () => (id < 100 ? organization(id) : undefined)),
    findAgent: (id) =>
      ask(`agent ${id}`, () => (id === absentId ? undefined : { id, organizationId: 1, isPublic: rows.isAgentPublic })),
    findResource: ({ kind, id }) =>
      ask(`${kind.name} ${id}`, () => {
        if (id === 'foreign' || id === 'absent') return id === 'foreign' ? id : undefined
        return { levels: [{ id, organizationId: Number(id), ownerId: null, visibility: 'organization' as const }] }
      }),
    findCluster: (id) => ask(`cluster ${id}`, () => (id === absentId ? undefined : cluster(id, rows.heartbeat))),
    findMember: (_organization, id) => ask(`member ${id}`, () => ({ id, userType: 'human' as const })),
    findNamedMember: (organizationId, name) => ask(`named ${organizationId} ${Object.values(name)}`, () => user(1)),
    listMembers: ({ organizationId }) => ask(`members ${organizationId}`, () => []),
    findUniqueNames: () => ask('names', () => new Set<number>()),
    listAgents: ({ organizationId }) => ask(`agents ${organizationId}`, () => []),
    listResources: ({ name }) => ask(`list ${name}`, () => []),
    mintToken: () => ask('mint', () => token(1, user(1))),
    listTokens: () => ask('list', () => ({ total: 0, tokens: [] })),
    revokeToken: ({ id }) => ask(`revoke ${id}`, () => (rows.revoked ? token(id, user(1)) : undefined)),
    switchOrganization: (id, organizationId) => ask(`switch ${id}`, () => organizationId !== 10),
    noteTokenUse: (id) => asked.push(`use ${id}`),
    ping: () => ask('ping', () => undefined),
  }
  const cached = createCachedDirectory(store, {
    maxEntries: 100,
    ttlMs: 60_000,
    freshness,
    onRead: (cache, result) => reads.push([cache, result]),
    announce: (change) => told.push(change),
    onForgotten: () => undefined,
  })
  const { directory } = cached
  /** One look at everything that is held. */
  const warm = async (): Promise<void> => {
    for (const subject of users.keys()) await directory.findByIdentity({ issuer, subject })
    for (const id of tokens.keys()) await directory.findToken(id, `hash-${id}`)
    for (const id of [10, 20]) await directory.findOrganization(id)
    await directory.findAgent(30, 1)
    await directory.findCluster(40, new Date(nowMs), 1)
  }
  return {
    ...cached,
    rows,
    asked,
    told,
    reads,
    warm,
    pass: (ms: number) => {
      clockMs += ms
      freshness.markSynced(clockMs)
    },
    /** The questions to the store when everything is read again. */
    lookAgain: async (): Promise<readonly string[]> => {
      asked.length = 0
      await warm()
      return [...asked]
    },
  }
}

t.test('a fact that was looked up once is not asked of the store again', async (t) => {
  const { warm, lookAgain, sizes } = holdDirectory()
  await warm()
  t.same(await lookAgain(), [])
  t.same(sizes(), { users: 3, tokens: 2, organizations: 2, agents: 1, clusters: 1, resources: 0 })
})

const kindOf = (name: string): ResourceKind => ({
  name,
  fingerprint: name,
  idType: 'text',
  hasOwner: false,
  hasVisibility: false,
  privateRole: undefined,
  parent: undefined,
})

t.test('a change of resources forgets their kind in their organization alone', async (t) => {
  const { directory, forget, asked } = holdDirectory()
  const ask = async () => {
    asked.length = 0
    for (const [name, id] of ['dataset 1', 'dataset 2', 'file 1'].map((each) => each.split(' ')))
      await directory.findResource({ kind: kindOf(name ?? ''), id: id ?? '', organizationId: Number(id) })
    return [...asked]
  }
  await ask()
  t.same(await ask(), [])
  forget({ kind: 'resource/dataset', id: 1 })
  t.same(await ask(), ['dataset 1'])
  forget({ kind: 'everything' })
  t.equal((await ask()).length, 3)
})

t.test('a foreign resource is held as long as an absent one, and for the asking organization alone', async (t) => {
  const { directory, pass, asked } = holdDirectory()
  const ask = async (organizationId: number) => {
    asked.length = 0
    for (const id of ['foreign', 'absent'])
      await directory.findResource({ kind: kindOf('dataset'), id, organizationId })
    return [...asked]
  }
  const both = ['dataset foreign', 'dataset absent']
  t.same(await ask(1), both)
  t.same(await ask(2), both)
  pass(850)
  t.same(await ask(1), [])
  pass(100)
  t.same(await ask(1), both)
})

t.test('a foreign agent or cluster is held as long as an absent one, and a silent one asks no more', async (t) => {
  const { directory, rows, pass, asked } = holdDirectory()
  rows.heartbeat = null
  const silentSince = new Date(nowMs)
  const ask = async () => {
    asked.length = 0
    for (const id of [30, absentId]) await directory.findAgent(id, 2)
    for (const id of [40, absentId]) await directory.findCluster(id, silentSince, 2)
    return [...asked]
  }
  const all = ['agent 30', `agent ${absentId}`, 'cluster 40', `cluster ${absentId}`]
  t.same(await ask(), all)
  t.equal(await directory.findAgent(30, 2), 'foreign')
  t.equal(await directory.findAgent(30, undefined), 'foreign', 'nor is it that of no organization')
  t.equal(await directory.findCluster(40, silentSince, 2), 'foreign')
  pass(850)
  t.same(await ask(), [])
  pass(100)
  t.same(await ask(), all)
  t.match(await directory.findAgent(30, 1), { id: 30 }, 'to its own organization it is there')
  t.match(await directory.findCluster(40, silentSince, 1), { id: 40 })
})

t.test('a public agent is found by every organization, and by none of them once it is public no more', async (t) => {
  const { directory, rows, pass, asked, forget } = holdDirectory()
  rows.isAgentPublic = true
  const find = async () =>
    Promise.all([1, 2, undefined].map((organizationId) => directory.findAgent(30, organizationId)))
  t.match(await find(), [{ id: 30 }, { id: 30 }, { id: 30 }])
  pass(2_000)
  asked.length = 0
  await find()
  t.same(asked, [], 'it is held as a fact')
  rows.isAgentPublic = false
  forget({ kind: 'agent', id: 30 })
  t.match(await find(), [{ id: 30 }, 'foreign', 'foreign'])
  rows.isAgentPublic = true
  forget({ kind: 'agent', id: 30 })
  t.match(await find(), [{ id: 30 }, { id: 30 }, { id: 30 }])
})

const [one, two, three] = ['one', 'two', 'three'].map((subject) => `user ${issuer} ${subject}`)

/** The questions to the store after each change. */
const reach: readonly (readonly [change: Change, asked: readonly (string | undefined)[]])[] = [
  [{ kind: 'user', id: 1 }, [one, 'token 101']],
  [{ kind: 'user', id: 3 }, [three]],
  [{ kind: 'token', id: 102 }, ['token 102']],
  [{ kind: 'organization', id: 20 }, [one, two, 'token 101', 'token 102', 'organization 20']],
  [{ kind: 'organization', id: 10 }, [one, 'token 101', 'organization 10']],
  [{ kind: 'members', id: 20 }, ['organization 20']],
  [{ kind: 'agent', id: 30 }, ['agent 30']],
  [{ kind: 'cluster', id: 40 }, ['cluster 40']],
  [
    { kind: 'everything' },
    [one, two, three, 'token 101', 'token 102', 'organization 10', 'organization 20', 'agent 30', 'cluster 40'],
  ],
  // One id, many kinds: a change is of its own kind alone.
  [{ kind: 'token', id: 1 }, []],
  [{ kind: 'agent', id: 40 }, []],
  [{ kind: 'cluster', id: 30 }, []],
  [{ kind: 'user', id: 101 }, []],
]

t.test('a change forgets what tells of the changed row, and nothing else', async (t) => {
  for (const [change, asked] of reach) {
    const { warm, forget, lookAgain, told } = holdDirectory()
    await warm()
    forget(change)
    t.same(await lookAgain(), asked, JSON.stringify(change))
    t.same(told, [], 'what was heard is not told on')
  }
})

t.test('issuer and subject name a user together, whatever is in them', async (t) => {
  const { directory, asked, rows } = holdDirectory()
  const names = [
    ['a', 'b c'],
    ['a b', 'c'],
    ['a","b', 'c'],
    ['a', 'b","c'],
  ] as const
  for (const [of, subject] of names) {
    rows.users.set(subject, user(5))
    t.ok(await directory.findByIdentity({ issuer: of, subject }))
  }
  t.equal(asked.length, names.length)
})

t.test('the absence of a user is not remembered, because a first login follows', async (t) => {
  const { directory, rows } = holdDirectory()
  t.equal(await directory.findByIdentity({ issuer, subject: 'new' }), undefined)
  rows.users.set('new', user(4))
  t.equal((await directory.findByIdentity({ issuer, subject: 'new' }))?.id, 4)
})

t.test(
  'the absence of a token is remembered for the hash that was claimed, so that a guess hides nothing',
  async (t) => {
    const { directory, rows, asked, pass } = holdDirectory()
    t.equal(await directory.findToken(103, 'guess'), undefined)
    t.equal(await directory.findToken(103, 'guess'), undefined)
    t.same(asked, ['token 103'])
    rows.tokens.set(103, token(103, user(1)))
    t.match(await directory.findToken(103, 'hash-103'), { id: 103 })
    pass(1_000)
    t.match(await directory.findToken(103, 'guess'), { id: 103 }, 'comparing is the caller’s')
  },
)

t.test('an absence is remembered with its reason, and forgotten by a change', async (t) => {
  const { directory, rows, asked, forget } = holdDirectory()
  rows.wrongSecrets.add(103)
  for (let again = 0; again < 2; again += 1) t.equal(await directory.findToken(103, 'guess'), 'wrong-secret')
  t.same(asked, ['token 103'])
  rows.wrongSecrets.clear()
  forget({ kind: 'token', id: 103 })
  t.equal(await directory.findToken(103, 'guess'), undefined)
  t.equal(asked.length, 2)
})

t.test('a guess under way does not answer for the token that is minted meanwhile', async (t) => {
  const { directory, rows, asked } = holdDirectory()
  const guess = directory.findToken(103, 'guess')
  rows.tokens.set(103, token(103, user(1)))
  t.match(await directory.findToken(103, 'hash-103'), { id: 103 })
  t.equal(await guess, undefined)
  t.equal(asked.length, 2)
})

t.test('guesses at the secret of a token that is held ask the store nothing', async (t) => {
  const { directory, warm, asked } = holdDirectory()
  await warm()
  asked.length = 0
  for (let guess = 0; guess < 100; guess++) await directory.findToken(101, `guess-${guess}`)
  t.same(asked, [])
})

t.test('a failing store is not an answer, and is not remembered', async (t) => {
  const { directory, rows, warm } = holdDirectory()
  rows.isDown = true
  const looks: readonly (() => unknown)[] = [
    () => directory.findByIdentity({ issuer, subject: 'one' }),
    () => directory.findToken(101, 'hash-101'),
    () => directory.findOrganization(10),
    () => directory.findAgent(30, 1),
    () => directory.findCluster(40, new Date(0), 1),
    () => directory.createByIdentity(identity('new'), audit),
  ]
  for (const look of looks) await t.rejects(async () => look(), { code: 'directory_unavailable' })
  rows.isDown = false
  for (const look of looks) t.ok(await look())
  await warm()
})

const beatOf = async (directory: Directory, aliveSince: Date) => {
  const found = await directory.findCluster(40, aliveSince, 1)
  return typeof found === 'object' ? found.lastHeartbeatAt : found
}

t.test('a held heartbeat that is young enough is not asked for again', async (t) => {
  const { directory, asked, pass } = holdDirectory()
  for (let count = 0; count < 10; count++) {
    await directory.findCluster(40, new Date(nowMs), 1)
    pass(5_000)
  }
  t.equal(asked.length, 1)
})

t.test('a cluster that seems silent is asked for again, once a second', async (t) => {
  const { directory, rows, asked, pass } = holdDirectory()
  const silentSince = new Date(nowMs + 1)
  await directory.findCluster(40, silentSince, 1)
  t.equal(asked.length, 1, 'what was just looked up is young enough')
  for (let count = 0; count < 10; count++) {
    await directory.findCluster(40, silentSince, 1)
    pass(100)
  }
  t.equal(asked.length, 1)
  rows.heartbeat = new Date(nowMs + 500)
  pass(1)
  t.same(await beatOf(directory, silentSince), new Date(nowMs + 500))
  t.equal(asked.length, 2)
})

t.test('a cluster that never said anything is as good as one of the beginning of time', async (t) => {
  const { directory, rows, asked, pass } = holdDirectory()
  rows.heartbeat = null
  for (let count = 0; count < 5; count++) {
    t.equal(await beatOf(directory, new Date(0)), null)
    pass(2_000)
  }
  t.equal(asked.length, 1)
})

t.test('the gateway’s own change is forgotten before it is answered, and announced', async (t) => {
  const { directory, warm, lookAgain, told } = holdDirectory()
  await warm()
  await directory.revokeToken({ id: 101, userId: 1 }, audit)
  t.same(await lookAgain(), ['token 101'])
  await directory.switchOrganization(2, 20, audit)
  t.same(await lookAgain(), [two, 'token 102'])
  t.same(told, [
    { kind: 'token', id: 101 },
    { kind: 'user', id: 2 },
  ])
})

t.test('a revocation or switch that changed nothing, or failed, is not announced', async (t) => {
  const { directory, rows, warm, lookAgain, told } = holdDirectory()
  await warm()
  rows.revoked = false
  t.equal(await directory.revokeToken({ id: 101, userId: 2 }, audit), undefined)
  t.equal(await directory.switchOrganization(1, 10, audit), false)
  rows.isDown = true
  await t.rejects(directory.revokeToken({ id: 101, userId: 1 }, audit), { code: 'directory_unavailable' })
  await t.rejects(directory.switchOrganization(1, 10, audit), { code: 'directory_unavailable' })
  rows.isDown = false
  t.same([await lookAgain(), told], [[], []])
})

t.test('first logins of one identity at once are one, until something changes', async (t) => {
  const { directory, asked, forget } = holdDirectory()
  const early = [directory.createByIdentity(identity('new'), audit), directory.createByIdentity(identity('new'), audit)]
  const other = directory.createByIdentity(identity('other'), audit)
  t.same(asked, ['create new', 'create other'])
  forget({ kind: 'user', id: 99 })
  const late = directory.createByIdentity(identity('new'), audit)
  t.same(asked, ['create new', 'create other', 'create new'])
  await Promise.all([...early, other, late])
})

t.test('a fact that decides nothing about a request is never held', async (t) => {
  const { directory, asked } = holdDirectory()
  for (let count = 0; count < 2; count++) {
    await directory.findMember(1, 2)
    await directory.listTokens(1, { page: 1, perPage: 20 })
    const token = { userId: 1, organizationId: 1, name: null, hash: 'h', abilities: [], expiresAt: null }
    await directory.mintToken(token, undefined, audit)
    directory.noteTokenUse(7, new Date(0))
    await directory.ping()
  }
  t.same(asked.slice(5), asked.slice(0, 5))
  t.equal(asked.length, 10)
})

t.test('each read is counted under the name of its cache', async (t) => {
  const { warm, reads } = holdDirectory()
  await warm()
  await warm()
  for (const name of ['users', 'tokens', 'organizations', 'agents', 'clusters'] as const)
    t.same(
      new Set(reads.flatMap(([cache, result]) => (cache === name ? [result] : []))),
      new Set(['miss', 'hit']),
      name,
    )
})
