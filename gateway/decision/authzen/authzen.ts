import { setImmediate } from 'node:timers/promises'
import { readCredential } from '../../authenticate/credential.ts'
import { decide, enforce } from '../../authorize/decide.ts'
import { GatewayError } from '../../errors/gateway-error.ts'
import type { Exchange } from '../../http/exchange.ts'
import type { RequestObserver, RequestRecord } from '../../observe/request-record.ts'
import { auditRefusal, passAudit, renderRefusal, type Snapshot, type Stages } from '../../pipeline.ts'
import type { Route } from '../../policy/route.ts'
import { readClient } from '../../receive/client.ts'
import { type RequestHeaders, readHeaders } from '../../receive/headers.ts'
import { readRequestId } from '../../receive/request-id.ts'
import { type RequestTarget, readTarget } from '../../receive/target.ts'
import { readMediaType } from '../../relay/answer-headers.ts'
import { resolveOrganization } from '../../resolve/organization.ts'
import { createEvaluate, type SubjectNaming } from './evaluate.ts'
import {
  type AccessQuestion,
  type QuestionBatch,
  readQuestion,
  readQuestionBatch,
  readSearch,
  refuse,
  type SearchQuestion,
} from './questions.ts'
import { type SearchAsker, type SearchTools, search } from './search.ts'

export type AuthzenSettings = Readonly<{ url: string; subject: SubjectNaming }>

const paths = {
  metadata: '/.well-known/authzen-configuration',
  evaluation: '/access/v1/evaluation',
  evaluations: '/access/v1/evaluations',
  'search-subject': '/access/v1/search/subject',
  'search-resource': '/access/v1/search/resource',
  'search-action': '/access/v1/search/action',
} as const

type Endpoint = keyof typeof paths

type GuardedEndpoint = Exclude<Endpoint, 'metadata'>

const searches: Readonly<Record<GuardedEndpoint, SearchQuestion['wanted'] | undefined>> = {
  evaluation: undefined,
  evaluations: undefined,
  'search-subject': 'subject',
  'search-resource': 'resource',
  'search-action': 'action',
}

type Received = Readonly<{
  exchange: Exchange
  headers: RequestHeaders
  target: RequestTarget
  clientAddress: string
  requestId: string
  record: RequestRecord
  observer: RequestObserver
}>

export function createAuthzen(stage: Stages, { url, subject }: AuthzenSettings, tools: SearchTools) {
  const { directory } = stage
  const evaluate = createEvaluate(directory, subject)
  const metadata = describeEndpoints(url)
  const respond = async (endpoint: Endpoint, received: Received, snapshot: Snapshot): Promise<unknown> => {
    const { exchange, record, observer } = received
    requireMethod(endpoint, exchange.method)
    if (endpoint === 'metadata') {
      observer.onAllowed()
      await passAudit(stage.audit, record, observer, 200)
      return metadata
    }
    const asker = await admitEvaluator(stage, endpoint, received, snapshot)
    const bytes = await readBody(received)
    const wanted = searches[endpoint]
    if (wanted) return search(readSearch(wanted, bytes), asker, { policy: snapshot, directory, naming: subject }, tools)
    const question = endpoint === 'evaluation' ? readQuestion(bytes) : readQuestionBatch(bytes)
    const answer = (one: AccessQuestion): Promise<boolean> => evaluate(one, asker.organizationId, snapshot)
    return 'questions' in question ? answerBatch(question, answer) : { decision: await answer(question) }
  }
  const serve = async (endpoint: Endpoint, exchange: Exchange): Promise<void> => {
    const requestId = readRequestId(exchange.headers)
    const record = stage.beginRecord(exchange, requestId)
    const observer = stage.observe(record, exchange, requestId)
    try {
      const snapshot = stage.snapshot()
      const body = await respond(
        endpoint,
        receive(stage, { exchange, requestId, record, observer }, snapshot),
        snapshot,
      )
      const headers = ['content-type', 'application/json', 'cache-control', 'no-store', 'x-request-id', requestId]
      exchange.respond({ status: 200, headers }, JSON.stringify(body))
    } catch (caught) {
      const refused = GatewayError.from(caught)
      exchange.willRefuse(refused.status)
      const refusal = renderRefusal(await auditRefusal(stage.audit, record, observer, refused), record, requestId)
      exchange.respond(refusal, refusal.body)
    }
  }
  return (exchange: Exchange): Promise<void> | undefined => {
    const [path] = exchange.target.split('?', 1)
    const endpoint = (Object.keys(paths) as Endpoint[]).find((name) => paths[name] === path) // its keys are all endpoints
    return endpoint && serve(endpoint, exchange)
  }
}

/** From the configuration alone: a client chooses `Host`, and would choose where others send their questions. */
function describeEndpoints(url: string): Readonly<Record<string, string>> {
  return {
    policy_decision_point: url,
    access_evaluation_endpoint: `${url}${paths.evaluation}`,
    access_evaluations_endpoint: `${url}${paths.evaluations}`,
    search_subject_endpoint: `${url}${paths['search-subject']}`,
    search_resource_endpoint: `${url}${paths['search-resource']}`,
    search_action_endpoint: `${url}${paths['search-action']}`,
  }
}

type Begun = Pick<Received, 'exchange' | 'requestId' | 'record' | 'observer'>

function receive(stage: Stages, begun: Begun, { headLimits: { usual } }: Snapshot): Received {
  const { exchange, observer } = begun
  const headers = readHeaders(exchange, usual.headerBytes)
  const client = readClient(exchange, headers, stage.isTrustedProxy)
  observer.onClient(client)
  const target = readTarget(exchange.method, exchange.target, headers.host, usual.targetBytes)
  observer.onTarget(target, headers.host, headers)
  return { ...begun, headers, target, clientAddress: client.address }
}

function requireMethod(endpoint: Endpoint, method: string): void {
  const allow = endpoint === 'metadata' ? ['GET', 'HEAD'] : ['POST']
  if (!allow.includes(method)) throw new GatewayError('method_not_allowed', { allow })
}

const evaluateAbility = 'decisions:evaluate'

const routeOf = (endpoint: GuardedEndpoint): Route => ({
  id: `authzen.${endpoint}`,
  source: 'gateway',
  host: undefined,
  path: paths[endpoint],
  methods: new Set(['POST']),
  surface: 'platform',
  stream: undefined,
  isPublic: false,
  destination: { kind: 'upstream', name: 'authzen' },
  rewrite: undefined,
  role: undefined,
  ability: evaluateAbility,
  organizationParam: undefined,
  resource: undefined,
  unguarded: new Map(),
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

async function admitEvaluator(
  stage: Stages,
  endpoint: GuardedEndpoint,
  { exchange, headers, target, clientAddress, requestId, record, observer }: Received,
  { roles }: Snapshot,
): Promise<SearchAsker> {
  const match = { route: routes[endpoint], target, params: new Map<string, string>(), rest: undefined }
  observer.onMatch(match)
  const credential = readCredential(headers, stage.credentials, exchange)
  const principal = await stage.authenticate(credential, { clientAddress, requestId })
  observer.onPrincipal(principal)
  const organization = resolveOrganization(principal, match, headers)
  observer.onOrganization(organization)
  // By its name: a token with all abilities of its account was not minted to ask about others.
  if (principal.credential.kind !== 'api-token' || !principal.credential.abilities.includes(evaluateAbility))
    throw new GatewayError('token_ability_missing')
  enforce(decide(match, { principal, organization, resource: undefined }, roles))
  if (!organization) throw new GatewayError('no_organization_for_ability')
  observer.onAllowed()
  await passAudit(stage.audit, record, observer)
  return { tokenId: principal.credential.id, organizationId: organization.id }
}

const bodyLimitBytes = 256 * 1024

async function readBody({ exchange, headers }: Received): Promise<Buffer> {
  if (readMediaType(headers.passing) !== 'application/json') throw refuse('content-type', 'enum')
  return exchange.body.read(bodyLimitBytes)
}

const notUnderstood = { decision: false, context: { error: { status: 400, message: 'The evaluation is malformed.' } } }

/** Each answer has a turn of the event loop of its own, so that other requests do not wait for a whole batch. */
async function answerBatch(
  { questions, semantic }: QuestionBatch,
  evaluate: (question: AccessQuestion) => Promise<boolean>,
): Promise<unknown> {
  const evaluations: unknown[] = []
  for (const question of questions) {
    const decision = question !== undefined && (await evaluate(question))
    evaluations.push(question ? { decision } : notUnderstood)
    if (semantic === 'deny_on_first_deny' && !decision) break
    if (semantic === 'permit_on_first_permit' && decision) break
    await setImmediate()
  }
  return { evaluations }
}
