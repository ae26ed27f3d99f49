import { GatewayError } from '../../../base/errors/gateway-error.ts'
import type { Exchange } from '../../../http/exchange.ts'
import type { RequestObserver, RequestRecord } from '../../../observe/request-record.ts'
import type { Snapshot, Stages } from '../../../pipeline.ts'
import type { Route } from '../../../policy/route.ts'
import { readCredential } from '../../../stages/authenticate/credential.ts'
import type { Principal } from '../../../stages/authenticate/principal.ts'
import { decide, enforce } from '../../../stages/authorize/decide.ts'
import type { RequestHeaders } from '../../../stages/receive/headers.ts'
import type { RequestTarget } from '../../../stages/receive/target.ts'
import { resolveOrganization } from '../../../stages/resolve/organization.ts'
import { readOrganizationId } from '../../../stages/resolve/organization-id.ts'
import type { RouteMatch } from '../../../stages/route/table.ts'

export const authzenPaths = {
  metadata: '/.well-known/authzen-configuration',
  evaluation: '/access/v1/evaluation',
  evaluations: '/access/v1/evaluations',
  'search-subject': '/access/v1/search/subject',
  'search-resource': '/access/v1/search/resource',
  'search-action': '/access/v1/search/action',
} as const

export type AuthzenEndpoint = keyof typeof authzenPaths

export type GuardedEndpoint = Exclude<AuthzenEndpoint, 'metadata'>

export type Asker = Readonly<{ caller: number | string; organizationId: number }>

export type ReceivedQuestion = Readonly<{
  exchange: Exchange
  headers: RequestHeaders
  target: RequestTarget
  clientAddress: string
  requestId: string
  record: RequestRecord
  observer: RequestObserver
}>

export type AdmitTerms = Readonly<{ evaluators: readonly string[]; now: () => Date }>

type Admit = (endpoint: GuardedEndpoint, received: ReceivedQuestion, snapshot: Snapshot) => Promise<Asker>

const evaluateAbility = 'decisions:evaluate'

const routeOf = (endpoint: GuardedEndpoint): Route => ({
  id: `authzen.${endpoint}`,
  source: 'gateway',
  host: undefined,
  path: authzenPaths[endpoint],
  methods: new Set(['POST']),
  surface: 'platform',
  stream: undefined,
  isPublic: false,
  destination: { kind: 'upstream', name: 'authzen' },
  rewrite: undefined,
  role: undefined,
  ability: evaluateAbility,
  organizationParam: undefined,
  hostLabel: undefined,
  resource: undefined,
  unguarded: new Map(),
  questions: [],
  isWebSocket: false,
  isKeptAlive: false,
  takesEncodedSlashes: false,
  rateLimit: undefined,
  bodyLimitBytes: undefined,
  headLimits: {},
  timeouts: {},
})

const routes: Readonly<Record<GuardedEndpoint, Route>> = {
  evaluation: routeOf('evaluation'),
  evaluations: routeOf('evaluations'),
  'search-subject': routeOf('search-subject'),
  'search-resource': routeOf('search-resource'),
  'search-action': routeOf('search-action'),
}

export const createAdmitAsker = (stage: Stages, terms: AdmitTerms): Admit => {
  const findEvaluator = createFindEvaluator(terms)
  return async (endpoint, received, { roles }) => {
    const { target, observer } = received
    const match = {
      route: routes[endpoint],
      target,
      params: new Map<string, string>(),
      rest: undefined,
      hostLabel: undefined,
    }
    observer.onMatch(match)
    const evaluator = findEvaluator(received)
    return evaluator === undefined ? admitToken(stage, match, received, roles) : admitProgram(evaluator, received)
  }
}

function createFindEvaluator({ evaluators, now }: AdmitTerms) {
  const known = evaluators.map((name) => ({ name, written: `${name.includes(':') ? 'URI' : 'DNS'}:${name}` }))
  return ({ exchange, headers }: ReceivedQuestion): string | undefined => {
    if (known.length === 0 || headers.authorization.length + headers.oauthAccessToken.length > 0) return undefined
    const certificate = exchange.clientCertificate
    if (!certificate || !(now() < certificate.endsAt)) return undefined
    return known.find(({ written }) => certificate.names.includes(written))?.name
  }
}

function admitProgram(name: string, { headers, record }: ReceivedQuestion): Asker {
  record.onEvaluator(name, undefined)
  const organizationId = readOrganizationId(headers.organizationId)
  if (organizationId === undefined) throw new GatewayError('organization_header_malformed')
  record.onEvaluator(name, organizationId)
  return { caller: name, organizationId }
}

async function admitToken(
  stage: Stages,
  match: RouteMatch,
  { exchange, headers, clientAddress, requestId, observer }: ReceivedQuestion,
  roles: Snapshot['roles'],
): Promise<Asker> {
  const credential = readCredential(headers, stage.credentials, exchange)
  const principal: Principal = await stage.authenticate(credential, { clientAddress, requestId })
  observer.onPrincipal(principal)
  const organization = resolveOrganization(principal, match, headers)
  observer.onOrganization(organization)
  // By its name: a token with all abilities of its account was not minted to ask about others.
  if (principal.credential.kind !== 'api-token' || !principal.credential.abilities.includes(evaluateAbility))
    throw new GatewayError('token_ability_missing')
  enforce(decide(match, { principal, organization, resource: undefined }, roles))
  if (!organization) throw new GatewayError('no_organization_for_ability')
  return { caller: principal.credential.id, organizationId: organization.id }
}
