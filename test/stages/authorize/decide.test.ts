import t from 'tap'
import type { AgentRecord, RoleAssignment } from '../../../gateway/directory/directory.ts'
import type { OrganizationRole, Roles } from '../../../gateway/policy/role.ts'
import { methods, type Route } from '../../../gateway/policy/route.ts'
import type { Principal } from '../../../gateway/stages/authenticate/principal.ts'
import {
  assertIssued,
  type Caller,
  decide,
  enforce,
  type Pending,
  type Permit,
  settle,
} from '../../../gateway/stages/authorize/decide.ts'
import type { Organization } from '../../../gateway/stages/resolve/organization.ts'
import type { RouteMatch } from '../../../gateway/stages/route/table.ts'
import { meaningsOf } from '../../support/meanings.ts'

const ladder: readonly OrganizationRole[] = [
  ['low', ['agents:execute']],
  ['middle', ['agents:execute', 'things:read']],
  ['high', ['agents:execute', 'things:read', 'things:write']],
].map(([slug, abilities], index) => ({
  slug: String(slug),
  name: String(slug),
  description: null,
  rank: index + 1,
  abilities: new Set(abilities),
}))
const [low, middle, high] = ladder as [OrganizationRole, OrganizationRole, OrganizationRole]

const roles: Roles = {
  organization: new Map(ladder.map((role) => [role.slug, role])),
  highest: high,
  platform: new Map(
    [
      { slug: 'admin', isBypassScope: true },
      { slug: 'user', isBypassScope: false },
    ].map((role) => [role.slug, { ...role, name: role.slug, description: null }]),
  ),
  tokenScopes: new Map(),
  meanings: meaningsOf(low, middle, high),
}

const home: Organization = { id: 1, slug: 'home', accountType: 'team', role: 'low' }

const inRole = (role: string): Organization => ({ ...home, role })

const oauth: Principal['credential'] = { kind: 'oauth', expiresAt: new Date(0) }

const tokenWith = (...abilities: string[]): Principal['credential'] => ({
  kind: 'api-token',
  id: 1,
  name: null,
  abilities,
  lastUsedAt: null,
  expiresAt: null,
})

type Who = Readonly<{
  proof?: Principal['credential']
  organization?: Organization
  platformRoles?: readonly string[]
  /** Further assignments, in whatever organization. */
  assignments?: readonly RoleAssignment[]
  agent?: AgentRecord
}>

function callerOf({
  proof: credential = oauth,
  organization,
  platformRoles = [],
  assignments = [],
  agent,
}: Who): Caller {
  const user: Principal['user'] = {
    id: 5,
    email: 'a@example.com',
    emailVerified: true,
    username: null,
    firstName: null,
    lastName: null,
    fullName: null,
    userType: credential.kind === 'oauth' ? 'human' : 'client-managed',
    currentOrganizationId: null,
    roles: [
      ...(organization ? [{ id: 1, role: organization.role, organization }] : []),
      ...assignments,
      ...platformRoles.map((role, index) => ({ id: index + 10, role, organization: null })),
    ],
  }
  return { principal: { user, credential }, organization, resource: { kind: 'agent', agent } }
}

function matchOf(rules: Partial<Route>): RouteMatch {
  const route: Route = {
    id: 'r',
    source: 'routes.yaml:1',
    host: undefined,
    path: '/things/:id',
    methods: new Set(methods),
    surface: 'platform',
    stream: undefined,
    isPublic: false,
    destination: { kind: 'upstream', name: 'up' },
    rewrite: undefined,
    role: undefined,
    ability: undefined,
    organizationParam: undefined,
    hostLabel: undefined,
    resource: undefined,
    unguarded: new Map(),
    questions: [],
    isWebSocket: false,
    isKeptAlive: true,
    rateLimit: undefined,
    takesEncodedSlashes: false,
    bodyLimitBytes: undefined,
    headLimits: {},
    timeouts: {},
    ...rules,
  }
  const target = { method: 'GET', path: '/things/1', search: '', segments: ['things', '1'], hasEncodedSlash: false }
  return { route, target, params: new Map([['id', '1']]), rest: undefined, hostLabel: undefined }
}

/** The outcome in one word. */
function verdict(rules: Partial<Route>, who: Who | undefined): string {
  const decision = decide(matchOf(rules), who && callerOf(who), roles)
  return decision.isAllowed ? 'allowed' : decision.reason
}

t.test('a token may in each role what both allow, however often and in whatever order it is asked', async (t) => {
  const proof = tokenWith('things:read', 'things:write')
  const verdictIn = (role: string, ability: string): string =>
    verdict({ ability }, { proof, organization: inRole(role) })
  for (let turn = 0; turn < 2; turn++) {
    t.equal(verdictIn('low', 'things:read'), 'ability_missing')
    t.equal(verdictIn('middle', 'things:read'), 'allowed')
    t.equal(verdictIn('middle', 'things:write'), 'ability_missing')
    t.equal(verdictIn('high', 'things:write'), 'allowed')
    t.equal(verdictIn('high', 'agents:execute'), 'ability_missing')
  }
})

const agentOf = (organizationId: number, isPublic = false): AgentRecord => ({ id: 1, organizationId, isPublic })
const agentRoute: Partial<Route> = {
  role: low,
  ability: 'agents:execute',
  resource: { kind: 'agent', place: { in: 'path', name: 'id' } },
}

t.test('a higher role satisfies any check that requires a lower one, and no lower role does', async (t) => {
  for (const required of ladder)
    for (const held of ladder) {
      const expected = held.rank >= required.rank ? 'allowed' : 'role_insufficient'
      t.equal(
        verdict({ role: required }, { organization: inRole(held.slug) }),
        expected,
        `${held.slug}/${required.slug}`,
      )
    }
})

t.test('a route that requires nothing takes any authenticated caller, without an organization too', async (t) => {
  t.equal(verdict({}, {}), 'allowed')
  t.equal(verdict({}, { proof: tokenWith() }), 'allowed')
})

t.test('a route that is not public refuses a request without a caller', async (t) => {
  t.equal(verdict({}, undefined), 'unauthenticated')
  t.equal(verdict({ role: low }, undefined), 'unauthenticated')
})

t.test('without an organization no role is held, whatever the roles elsewhere', async (t) => {
  const elsewhere = [{ id: 1, role: 'high', organization: { id: 2, slug: 'away', accountType: 'team' } }] as const
  t.equal(verdict({ role: low }, { assignments: elsewhere }), 'role_insufficient')
  t.equal(verdict({ ability: 'agents:execute' }, { assignments: elsewhere }), 'ability_missing')
})

t.test('the role that counts is the one in the organization in force', async (t) => {
  const elsewhere = [{ id: 2, role: 'high', organization: { id: 2, slug: 'away', accountType: 'team' } }] as const
  t.equal(verdict({ role: middle }, { organization: inRole('low'), assignments: elsewhere }), 'role_insufficient')
})

t.test('a role that the policy does not know weighs nothing', async (t) => {
  t.equal(verdict({ role: low }, { organization: inRole('emperor') }), 'role_insufficient')
  t.equal(verdict({ ability: 'agents:execute' }, { organization: inRole('emperor') }), 'ability_missing')
})

t.test('an organization role held on the platform does not count', async (t) => {
  t.equal(verdict({ role: low }, { platformRoles: ['high'] }), 'role_insufficient')
  t.equal(verdict({ role: high }, { organization: inRole('low'), platformRoles: ['high'] }), 'role_insufficient')
})

t.test('an OAuth session is bounded by its role alone', async (t) => {
  t.equal(verdict({ ability: 'things:write' }, { organization: inRole('high') }), 'allowed')
  t.equal(verdict({ ability: 'things:write' }, { organization: inRole('middle') }), 'ability_missing')
})

t.test('a token passes only with what both its abilities and its role allow', async (t) => {
  const write = { ability: 'things:write' }
  t.equal(verdict(write, { organization: inRole('high'), proof: tokenWith('things:write') }), 'allowed')
  t.equal(verdict(write, { organization: inRole('high'), proof: tokenWith('things:read') }), 'ability_missing')
  t.equal(verdict(write, { organization: inRole('high'), proof: tokenWith() }), 'ability_missing')
  t.equal(verdict(write, { organization: inRole('middle'), proof: tokenWith('things:write') }), 'ability_missing')
})

t.test('a token with * is bounded by its role', async (t) => {
  t.equal(verdict({ ability: 'things:write' }, { organization: inRole('high'), proof: tokenWith('*') }), 'allowed')
  t.equal(
    verdict({ ability: 'things:write' }, { organization: inRole('middle'), proof: tokenWith('*') }),
    'ability_missing',
  )
})

t.test('abilities are compared whole: no prefix, no case, no pattern', async (t) => {
  const organization = inRole('high')
  for (const ability of ['things', 'things:', 'things:*', '*:write', 'Things:write', 'things:write2', ' things:write'])
    t.equal(
      verdict({ ability: 'things:write' }, { organization, proof: tokenWith(ability) }),
      'ability_missing',
      ability,
    )
})

t.test('the role is checked before the ability, and both before the resource', async (t) => {
  const route: Partial<Route> = {
    role: middle,
    ability: 'things:write',
    resource: { kind: 'agent', place: { in: 'path', name: 'id' } },
  }
  const agent = agentOf(2)
  t.equal(verdict(route, { organization: inRole('low'), proof: tokenWith(), agent }), 'role_insufficient')
  t.equal(verdict(route, { organization: inRole('high'), proof: tokenWith(), agent }), 'ability_missing')
  t.equal(verdict(route, { organization: inRole('high'), agent }), 'resource_not_found')
  t.equal(verdict(route, { organization: inRole('high'), agent: agentOf(1) }), 'allowed')
})

t.test('a bypass scope stands in for the highest role within an organization of the caller', async (t) => {
  const who: Who = { organization: inRole('low'), platformRoles: ['admin'] }
  t.equal(verdict({ role: high, ability: 'things:write' }, who), 'allowed')
  t.equal(verdict({ role: high, ability: 'things:write' }, { ...who, organization: inRole('emperor') }), 'allowed')
})

t.test('a bypass scope never replaces an organization', async (t) => {
  t.equal(verdict({ role: low }, { platformRoles: ['admin'] }), 'role_insufficient')
  t.equal(verdict({ ability: 'agents:execute' }, { platformRoles: ['admin'] }), 'ability_missing')
})

t.test("a bypass scope never replaces a token's missing ability", async (t) => {
  const who: Who = { organization: inRole('low'), platformRoles: ['admin'], proof: tokenWith('things:read') }
  t.equal(verdict({ role: high, ability: 'things:read' }, who), 'allowed')
  t.equal(verdict({ role: high, ability: 'things:write' }, who), 'ability_missing')
})

t.test('a bypass scope does not reach resources of other organizations', async (t) => {
  const who: Who = { organization: inRole('low'), platformRoles: ['admin'], agent: agentOf(2) }
  t.equal(verdict(agentRoute, who), 'resource_not_found')
})

t.test('a platform role without a bypass scope opens nothing', async (t) => {
  t.equal(verdict({ role: high }, { organization: inRole('low'), platformRoles: ['user'] }), 'role_insufficient')
  t.equal(verdict({ role: high }, { organization: inRole('low'), platformRoles: ['unheard-of'] }), 'role_insufficient')
})

t.test('the name of a bypass scope as a role of an organization is not a bypass', async (t) => {
  t.equal(verdict({ role: low }, { organization: inRole('admin') }), 'role_insufficient')
})

t.test('an agent of the organization in force may be run; of another one, or unknown, it does not exist', async (t) => {
  t.equal(verdict(agentRoute, { organization: inRole('low'), agent: agentOf(1) }), 'allowed')
  t.equal(verdict(agentRoute, { organization: inRole('high'), agent: agentOf(2) }), 'resource_not_found')
  t.equal(verdict(agentRoute, { organization: inRole('high') }), 'resource_not_found')
})

t.test('no organization never equals the organization of an agent that is not there', async (t) => {
  const route: Partial<Route> = { resource: { kind: 'agent', place: { in: 'path', name: 'id' } } }
  t.equal(verdict(route, {}), 'resource_not_found')
  t.equal(verdict(route, { agent: agentOf(1) }), 'resource_not_found')
})

t.test('a public agent needs no role and no organization', async (t) => {
  t.equal(verdict(agentRoute, { agent: agentOf(2, true) }), 'allowed')
  t.equal(verdict({ ...agentRoute, role: high }, { organization: inRole('low'), agent: agentOf(1, true) }), 'allowed')
  t.equal(verdict(agentRoute, { proof: tokenWith('agents:execute'), agent: agentOf(2, true) }), 'allowed')
})

t.test('a public agent may only be run without a role', async (t) => {
  const agent = agentOf(2, true)
  for (const ability of ['things:read', undefined]) {
    const rules = { ...agentRoute, ability }
    t.equal(verdict(rules, { agent }), 'role_insufficient', `${ability}`)
    t.equal(verdict(rules, { agent, organization: inRole('high') }), 'resource_not_found', `${ability}`)
  }
})

t.test("a public agent still counts the token's own abilities", async (t) => {
  t.equal(verdict(agentRoute, { proof: tokenWith('things:read'), agent: agentOf(2, true) }), 'ability_missing')
})

t.test('a public agent still needs a caller', async (t) => {
  t.equal(verdict(agentRoute, undefined), 'unauthenticated')
})

t.test('a public route is permitted without a caller, and forgets one that is given', async (t) => {
  const match = matchOf({ isPublic: true })
  for (const caller of [undefined, callerOf({ organization: inRole('high') })]) {
    const permit = enforce(decide(match, caller, roles))
    t.equal(permit.caller, undefined)
    t.equal(permit.match, match)
  }
})

t.test('a permit says for what and for whom it was given', async (t) => {
  const match = matchOf({ role: low })
  const caller = callerOf({ organization: inRole('middle'), proof: tokenWith('things:read', 'things:write') })
  const permit = enforce(decide(match, caller, roles))
  t.equal(permit.match, match)
  t.equal(permit.caller?.principal, caller.principal)
  t.equal(permit.caller?.organization, caller.organization)
  t.strictSame(permit.caller?.permissions.abilities, new Set(['things:read']))
})

t.test('a decision depends on its arguments alone and changes none of them', async (t) => {
  const match = matchOf(agentRoute)
  const caller = callerOf({ organization: inRole('low'), platformRoles: ['admin'], agent: agentOf(1) })
  const before = structuredClone({ caller, params: [...match.params] })
  const outcomes = [1, 2, 3].map(() => decide(match, caller, roles).isAllowed)
  t.strictSame(outcomes, [true, true, true])
  t.strictSame({ caller, params: [...match.params] }, before)
})

t.test('enforcing a denial throws its reason, with the status and the failed check', async (t) => {
  const route = matchOf({ role: middle, ability: 'things:write' })
  const refuse = (who: Who) => () => enforce(decide(route, callerOf(who), roles))
  t.throws(refuse({}), { code: 'role_insufficient', status: 403, check: 'role' })
  t.throws(refuse({ organization: inRole('middle') }), { code: 'ability_missing', status: 403, check: 'ability' })
  t.throws(() => enforce(decide(route, undefined, roles)), { code: 'unauthenticated', status: 401 })
})

t.test('a look-alike of a permit does not compile', async () => {
  const match = matchOf({})
  // @ts-expect-error a permit is made by decide alone
  const plain: Permit = { match, caller: undefined }
  const issued = enforce(decide(match, callerOf({}), roles))
  // @ts-expect-error a copy of a permit is none
  const copied: Permit = { ...issued }
  void [plain, copied]
})

t.test('a look-alike of a permit is refused where it is used', async (t) => {
  const issued = enforce(decide(matchOf({}), callerOf({}), roles))
  assertIssued(issued)
  const forgeries: readonly object[] = [
    { match: issued.match, caller: undefined },
    { ...issued },
    Object.assign(Object.create(Object.getPrototypeOf(issued)), issued),
    Object.create(issued),
    new Proxy(issued, {}),
    structuredClone({ isIssued: true }),
  ]
  // The cast is what a caller would have to write to get past the compiler.
  for (const [index, forgery] of forgeries.entries())
    t.throws(() => assertIssued(forgery as Permit), { code: 'internal', status: 500 }, `forgery ${index}`)
})

t.test('a permit does not hand out its class', async (t) => {
  const issued = enforce(decide(matchOf({}), callerOf({}), roles))
  const Class = issued.constructor as new (...args: unknown[]) => Permit
  t.throws(() => assertIssued(new Class(issued.match, undefined)), { code: 'internal' })
})

t.test('a route that asks decision points is permitted by a literal yes to each question alone', async (t) => {
  const question = { pdp: 'p', action: 'read', about: { from: 'route', type: 'route' } } as const
  const ask = (): Pending => {
    const decision = decide(matchOf({ questions: [question, { ...question, action: 'write' }] }), callerOf({}), roles)
    if (!decision.isAllowed || !decision.pending) throw new Error('no question is open')
    t.throws(() => enforce(decision), { code: 'internal' })
    return decision.pending
  }
  const outcome = (answers: readonly unknown[]): string => {
    const decision = settle(ask(), answers)
    return decision.isAllowed ? 'allowed' : decision.reason
  }
  t.equal(outcome([true, true]), 'allowed')
  for (const answers of [
    [true, false],
    [false, true],
    [true, 'true'],
    [true, 1],
    [true, undefined],
  ])
    t.equal(outcome(answers), 'decision_refused', JSON.stringify(answers))
  for (const answers of [[], [true], [true, true, true]])
    t.throws(() => outcome(answers), { code: 'decision_unavailable' }, JSON.stringify(answers))
  const forged = { ...ask() }
  t.throws(() => settle(forged as Pending, [true, true]), { code: 'internal' })
  const { match, caller } = ask()
  t.throws(() => settle({ match, caller } as Pending, [true, true]), { code: 'internal' })
})
