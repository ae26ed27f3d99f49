import { toTokenPrincipal } from '../../gateway/authenticate/principal.ts'
import { decide, enforce } from '../../gateway/authorize/decide.ts'
import type { TokenRecord, UserRecord } from '../../gateway/directory/directory.ts'
import type { Exchange } from '../../gateway/http/exchange.ts'
import type { Upstream } from '../../gateway/locate/upstream.ts'
import type { OrganizationRole, Roles } from '../../gateway/policy/role.ts'
import type { Route } from '../../gateway/policy/route.ts'
import { readTarget } from '../../gateway/receive/target.ts'
import type { Opening } from '../../gateway/recheck/open-exchange.ts'
import { findMembership } from '../../gateway/resolve/organization.ts'
import type { RouteTable } from '../../gateway/route/table.ts'
import { meaningsOf } from './meanings.ts'

const member: OrganizationRole = {
  slug: 'member',
  name: '',
  description: null,
  rank: 1,
  abilities: new Set(['x:read']),
}
export const roles: Roles = {
  organization: new Map([['member', member]]),
  highest: member,
  platform: new Map(),
  tokenScopes: new Map(),
  meanings: meaningsOf(member),
}
/** No route asks a decision point. */
export const noConsultation = { consultAgain: async () => false, recheckMsOf: () => 1_000 }

export const route: Route = {
  id: 'one',
  source: 'routes.yaml:1',
  host: undefined,
  path: '/one',
  methods: new Set(['GET']),
  surface: 'platform',
  stream: undefined,
  isPublic: false,
  destination: { kind: 'upstream', name: 'backend' },
  rewrite: undefined,
  role: member,
  ability: undefined,
  organizationParam: undefined,
  resource: undefined,
  unguarded: new Map(),
  questions: [],
  isWebSocket: false,
  isKeptAlive: true,
  takesEncodedSlashes: false,
  rateLimit: undefined,
  bodyLimitBytes: undefined,
  headLimits: {},
  timeouts: {},
}

const userOf = (id: number, organization = 1): UserRecord => ({
  id,
  email: '',
  emailVerified: false,
  username: null,
  firstName: null,
  lastName: null,
  fullName: null,
  userType: 'client-managed',
  currentOrganizationId: null,
  roles: [{ id, role: 'member', organization: { id: organization, slug: '', accountType: 'team' } }],
})

export const tokenOf = (id: number, expiresAt: Date | null = null): TokenRecord => ({
  id,
  hash: id.toString(16).padStart(64, '0'),
  name: null,
  abilities: ['*'],
  lastUsedAt: null,
  expiresAt,
  createdAt: null,
  user: userOf(id, id),
  ancestors: [],
})

/** The opening of an exchange by a token, in the organization of the token's number. Throws what the decision throws. */
export function openWith(record: TokenRecord, table: RouteTable, exchange: Partial<Exchange>): Opening {
  const principal = toTokenPrincipal(record)
  const match = table.match(readTarget('GET', '/one', 'h'), 'h')
  const organization = findMembership(principal.user, record.id)
  const permit = enforce(decide(match, { principal, organization, resource: undefined }, roles))
  const usual = {
    method: 'GET',
    target: '/one',
    isHandshake: false,
    hasStarted: true,
    status: 200,
    passedBytes: { received: 0, sent: 5 },
  }
  return {
    exchange: { ...usual, ...exchange, onEnd: () => undefined } as Partial<Exchange> as Exchange, // no more of it is used
    permit,
    upstream: { name: 'backend', origin: 'http://b' } as Upstream,
    host: 'h',
    report: {
      noteAccessEnd: () => undefined,
      describeOpening: () => ({ requestId: `of-${record.id}`, clientAddress: '192.0.2.1', path: '/one', route: 'one' }),
    },
  }
}
