import type { TokenRecord, UserRecord } from '../../gateway/directory/directory.ts'
import type { Login } from '../../gateway/directory/logout.ts'
import type { Exchange } from '../../gateway/http/exchange.ts'
import type { OrganizationRole, Roles } from '../../gateway/policy/role.ts'
import type { Route } from '../../gateway/policy/route.ts'
import type { Claims, TrustedIssuer } from '../../gateway/stages/authenticate/claims.ts'
import { OauthProof, type Principal, toTokenPrincipal } from '../../gateway/stages/authenticate/principal.ts'
import { decide, enforce } from '../../gateway/stages/authorize/decide.ts'
import type { Upstream } from '../../gateway/stages/locate/upstream.ts'
import { readTarget } from '../../gateway/stages/receive/target.ts'
import type { Opening } from '../../gateway/stages/recheck/open-exchange.ts'
import { findMembership } from '../../gateway/stages/resolve/organization.ts'
import type { RouteTable } from '../../gateway/stages/route/table.ts'
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
export const noConsultation = { consultAgain: async () => false, recheckMsOf: () => 1_000, shareOf: () => 1 }

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
  hostLabel: undefined,
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

export const userOf = (id: number, organization = 1): UserRecord => ({
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

type Opened = Readonly<{
  caller?: Readonly<{ principal: Principal; organizationId: number }>
  /** The end of the request's id. */
  name?: string
  upstream?: Readonly<{ name: string; origin: string }>
}>

/** The opening of an exchange by a caller, or by none. Throws what the decision throws. */
export function openAs(
  { caller, name = 'any', upstream }: Opened,
  table: RouteTable,
  exchange: Partial<Exchange>,
): Opening {
  const usual = {
    method: 'GET',
    target: '/one',
    headers: [],
    isHandshake: false,
    hasStarted: true,
    status: 200,
    passedBytes: { received: 0, sent: 5 },
    reset: () => undefined,
    closeTunnel: () => undefined,
    onEnd: () => undefined,
  }
  const { target } = { ...usual, ...exchange }
  const match = table.match(readTarget('GET', target, 'h'), 'h')
  const decided = caller && {
    principal: caller.principal,
    organization: findMembership(caller.principal.user, caller.organizationId),
    resource: undefined,
  }
  return {
    exchange: { ...usual, ...exchange } as Partial<Exchange> as Exchange, // no more of it is used
    permit: enforce(decide(match, decided, roles)),
    upstream: { name: 'backend', origin: 'http://b', ...upstream } as Upstream,
    host: 'h',
    report: {
      noteAccessEnd: () => undefined,
      describeOpening: () => ({ requestId: `of-${name}`, clientAddress: '192.0.2.1', path: target, route: 'one' }),
    },
  }
}

/** The opening of an exchange by a token, in the organization of the token's number. */
export function openWith(record: TokenRecord, table: RouteTable, exchange: Partial<Exchange>): Opening {
  const caller = { principal: toTokenPrincipal(record), organizationId: record.id }
  return openAs({ caller, name: String(record.id) }, table, exchange)
}

type Jwt = Readonly<{
  endsAtMs?: number
  login?: Login
  isVerifiedByCurrentKeys?: boolean
  isKeyListed?: boolean
}>

/** The proof of a JWT, whose subject is the number of its user. */
export class TestProof extends OauthProof {
  readonly keys = undefined
  readonly answer = undefined
  readonly isVerifiedByCurrentKeys: boolean
  readonly #isKeyListed: boolean

  constructor(id: number, { endsAtMs = 1e15, login, isVerifiedByCurrentKeys = true, isKeyListed = true }: Jwt = {}) {
    const trust = { issuer: 'https://login.example', clockToleranceSeconds: 0 } as TrustedIssuer // no more is asked
    const claims = { subject: String(id), expiresAt: endsAtMs / 1_000, login } as Claims // no more is asked
    super(trust, claims)
    this.isVerifiedByCurrentKeys = isVerifiedByCurrentKeys
    this.#isKeyListed = isKeyListed
  }

  async isKeyListed(): Promise<boolean> {
    return this.#isKeyListed
  }
}
