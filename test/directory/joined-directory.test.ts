import t from 'tap'
import type { ClaimsPolicy } from '../../gateway/directory/claims/directory.ts'
import { createJoin, joinClaims, joinFacts } from '../../gateway/directory/claims/joined-directory.ts'
import type { Assertions, Directory, UserRecord } from '../../gateway/directory/directory.ts'
import type { DeclaredOrganization } from '../../gateway/policy/organizations.ts'

const declared: DeclaredOrganization = { id: 7, slug: 'partner', accountType: 'enterprise', source: 'claims' }

const policyOf = (organizations: readonly DeclaredOrganization[]): ClaimsPolicy =>
  ({
    roles: { organization: new Map([['org-member', { rank: 1 }]]), platform: new Map() },
    organizations: {
      byId: new Map(organizations.map((one) => [one.id, one])),
      bySlug: new Map(organizations.map((one) => [one.slug, one])),
      byClaim: new Map(),
    },
  }) as unknown as ClaimsPolicy // the join reads no more of it

const assertions = { memberships: [{ role: 'org-member', slug: 'partner' }] } as unknown as Assertions

const at = (id: number, slug: string) => ({ id, slug, accountType: 'team' as const })
const user = (id: number, ...organizations: readonly ReturnType<typeof at>[]): UserRecord => ({
  ...{ id, email: 'a@x.example', emailVerified: false, username: null, firstName: null, lastName: null },
  ...{ fullName: null, userType: 'human', currentOrganizationId: 7 },
  roles: [
    ...organizations.map((organization, index) => ({ id: index + 1, role: 'org-owner', organization })),
    { id: 99, role: 'admin', organization: null },
  ],
})

const mixed = user(1, at(7, 'same-id'), at(2, 'acme'), at(3, 'partner'))
const records = {
  agents: { 1: { id: 1, organizationId: 2, isPublic: false }, 2: { id: 2, organizationId: 7, isPublic: true } },
  levels: (...ids: readonly number[]) => ({
    levels: ids.map((organizationId) => ({ id: 'a', organizationId, ownerId: null, visibility: 'public' as const })),
  }),
}
const asked: unknown[] = []
const store = {
  findByIdentity: (identity: object) => {
    asked.push(identity)
    return mixed
  },
  createByIdentity: async (identity: object) => {
    asked.push(identity)
    return mixed
  },
  findToken: () => ({ id: 1, user: mixed }),
  findAgent: (id: 1 | 2) => records.agents[id],
  findCluster: (id: number) => ({ id, organizationId: id }),
  findResource: ({ organizationId }: { organizationId: number }) => records.levels(2, organizationId),
  findOrganization: async (id: number) => ({ id, name: 'of the database' }),
  listMembers: async () => [mixed],
  findNamedMember: async () => mixed,
  findMember: async () => mixed,
  findUniqueNames: async () => new Set(),
  listAgents: async () => [],
  listResources: async () => [],
  switchOrganization: async () => true,
} as unknown as Directory // a store of these methods alone

const where = ({ roles }: UserRecord) => roles.map(({ role, organization }) => [role, organization?.id ?? null])
const stored = [
  ['org-owner', 2],
  ['admin', null],
]

let policy = policyOf([declared])
const join = createJoin(() => policy)
const directory = joinClaims(store, join)

t.test('a declared organization has its members from claims, and every other from the store', async (t) => {
  const known = (await directory.findByIdentity({ issuer: 'i', subject: 's', assertions })) ?? mixed
  t.strictSame(where(known), [
    ['org-owner', 2],
    ['org-member', 7],
    ['admin', null],
  ])
  t.equal(known.currentOrganizationId, null)
  t.strictSame(asked, [{ issuer: 'i', subject: 's' }], 'the store knows no claims')
  const plain = (await directory.findByIdentity({ issuer: 'i', subject: 's', assertions: undefined })) ?? mixed
  t.strictSame(where(plain), stored)
})

t.test('equal facts give one record, and a reload new ones', async (t) => {
  const find = () => directory.findByIdentity({ issuer: 'i', subject: 's', assertions })
  const first = await find()
  t.equal(await find(), first)
  t.not(await directory.findByIdentity({ issuer: 'i', subject: 's', assertions: { ...assertions } }), first)
  policy = policyOf([])
  const without = await find()
  t.not(without, first)
  t.equal(without, mixed, 'nothing is declared')
  policy = policyOf([declared])
})

t.test('all that the store says of a declared organization counts as absent', async (t) => {
  t.ok(await directory.findAgent(1, 1))
  t.equal(await directory.findAgent(2, 2), undefined)
  t.ok(await directory.findCluster(2, new Date(), 2))
  t.equal(await directory.findCluster(7, new Date(), 7), undefined)
  const kind = undefined as never
  t.ok(await directory.findResource({ kind, id: 'a', organizationId: 2 }))
  t.equal(await directory.findResource({ kind, id: 'a', organizationId: 7 }), undefined)
  t.match(await directory.findOrganization(2), { name: 'of the database' })
  t.match(await directory.findOrganization(7), { name: 'partner', memberCount: null })
  const token = await directory.findToken(1, '', '')
  t.strictSame(typeof token === 'object' && where(token.user), stored)
  for (const member of await directory.listMembers({ organizationId: 2, after: undefined, limit: 1 }))
    t.strictSame(where(member), stored)
  t.strictSame(where((await directory.findNamedMember(2, { id: 1 })) ?? mixed), stored)
})

t.test('members of a declared organization are known to no store', async (t) => {
  const part = { organizationId: 7, after: undefined, limit: 1 }
  for (const ask of [
    () => directory.findMember(7, 1),
    () => directory.findNamedMember(7, { id: 1 }),
    () => directory.listMembers(part),
    () => directory.findUniqueNames(7, []),
    () => directory.listAgents(part),
    () => directory.listResources(undefined as never, { ...part }),
    () => directory.switchOrganization(1, 7, undefined as never),
  ])
    await t.rejects(async () => ask(), { code: 'not_available' })
  await directory.switchOrganization(1, 2, undefined as never)
})

t.test('open exchanges are judged on the same facts, and the store is asked once for a subject', async (t) => {
  let keys: unknown
  const read = joinFacts(async (wanted) => {
    keys = wanted.identities
    return {
      users: new Map([['1 i s', mixed]]),
      tokens: new Map([[1, { id: 1, user: mixed }]]) as never,
      agents: new Map(Object.entries(records.agents).map(([id, agent]) => [Number(id), agent])),
      clusters: new Map([[7, { id: 7, organizationId: 7 }]]) as never,
      findResource: ({ id }) => records.levels(Number(id)),
    }
  }, join)
  const strong = { issuer: 'i', subject: 's', assertions: { ...assertions, key: 'strong' } }
  const weak = { issuer: 'i', subject: 's', assertions: { ...assertions, key: 'weak', memberships: [] } }
  const gone = { issuer: 'i', subject: 'gone', assertions }
  const facts = await read({
    identities: [strong, weak, gone],
    tokens: [1],
    agents: [1, 2],
    clusters: [7],
    resources: [],
  })
  t.strictSame(keys, [
    { issuer: 'i', subject: 's' },
    { issuer: 'i', subject: 'gone' },
  ])
  const rights = [...facts.users.values()].map((known) => where(known as UserRecord))
  t.strictSame(rights, [[stored[0], ['org-member', 7], stored[1]], stored], 'and nothing for an unknown subject')
  t.strictSame(where(facts.tokens.get(1)?.user ?? mixed), stored)
  t.strictSame([...facts.agents.keys(), ...facts.clusters.keys()], [1])
  t.ok(facts.findResource({ kind: undefined as never, id: '2' }))
  t.equal(facts.findResource({ kind: undefined as never, id: '7' }), undefined)
})
