import { setImmediate } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { GatewayError } from '../../../base/errors/gateway-error.ts'
import type { Exchange } from '../../../http/exchange.ts'
import { auditRefusal, passAudit, renderRefusal, type Snapshot, type Stages } from '../../../pipeline.ts'
import { confirmOnce, stillCounts } from '../../../rights/confirm-once.ts'
import { readClient } from '../../../stages/receive/client.ts'
import { readHeaders, requirePlainBody } from '../../../stages/receive/headers.ts'
import { readRequestId } from '../../../stages/receive/request-id.ts'
import { readTarget } from '../../../stages/receive/target.ts'
import { readMediaType } from '../../../stages/relay/answer-headers.ts'
import {
  type AdmitTerms,
  type Asker,
  type AuthzenEndpoint,
  authzenPaths,
  createAdmitAsker,
  type GuardedEndpoint,
  type ReceivedQuestion,
} from './admit.ts'
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
import { createSearchRoom, type SearchTools, search } from './search.ts'

export type AuthzenSettings = Readonly<{ url: string; subject: SubjectNaming; evaluators: readonly string[] }>

type AuthzenTools = SearchTools & Pick<AdmitTerms, 'now'>

const searches: Readonly<Record<GuardedEndpoint, SearchQuestion['wanted'] | undefined>> = {
  evaluation: undefined,
  evaluations: undefined,
  'search-subject': 'subject',
  'search-resource': 'resource',
  'search-action': 'action',
}

function createRespond(stage: Stages, { subject, evaluators }: AuthzenSettings, tools: AuthzenTools) {
  const { directory } = stage
  const evaluate = createEvaluate(directory, subject)
  const admit = createAdmitAsker(stage, { evaluators, now: tools.now })
  const room = createSearchRoom()
  const answer = async (endpoint: GuardedEndpoint, received: ReceivedQuestion, asker: Asker): Promise<unknown> => {
    const { record, observer } = received
    const wanted = searches[endpoint]
    if (wanted) room.requirePlace(asker)
    observer.onAllowed()
    await passAudit(stage.audit, record, observer)
    const bytes = await readBody(received)
    const policy = { ...stage.snapshot(), consult: stage.consult }
    if (!wanted) return answerQuestions(endpoint, bytes, (one) => evaluate(one, asker.organizationId, policy))
    const question = readSearch(wanted, bytes)
    const leave = room.enter(asker)
    try {
      return await search(question, asker, { policy, directory, naming: subject }, tools)
    } finally {
      leave()
    }
  }
  return async (endpoint: GuardedEndpoint, received: ReceivedQuestion, snapshot: Snapshot): Promise<unknown> => {
    const startedMs = tools.monotonicMs()
    const judge = async () => {
      const asker = await admit(endpoint, received, snapshot)
      return { asker, body: await answer(endpoint, received, asker) }
    }
    const readmit = async ({ asker, body }: Awaited<ReturnType<typeof judge>>) => {
      const still = await admit(endpoint, { ...received, observer: received.record }, stage.snapshot())
      if (!isDeepStrictEqual(still, asker)) throw new GatewayError('membership_lost')
      return { asker, body }
    }
    const isOutdated = (): boolean => !stillCounts(startedMs, tools.monotonicMs())
    return (await confirmOnce(judge, isOutdated, readmit)).body
  }
}

export function createAuthzen(stage: Stages, settings: AuthzenSettings, tools: AuthzenTools) {
  const metadata = describeEndpoints(settings.url)
  const respondTo = createRespond(stage, settings, tools)
  const respond = async (
    endpoint: AuthzenEndpoint,
    received: ReceivedQuestion,
    snapshot: Snapshot,
  ): Promise<unknown> => {
    const { exchange, record, observer } = received
    requireMethod(endpoint, exchange.method)
    if (endpoint !== 'metadata') return respondTo(endpoint, received, snapshot)
    observer.onAllowed()
    await passAudit(stage.audit, record, observer, 200)
    return metadata
  }
  const serve = async (endpoint: AuthzenEndpoint, exchange: Exchange): Promise<void> => {
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
    const endpoint = (Object.keys(authzenPaths) as AuthzenEndpoint[]).find((name) => authzenPaths[name] === path) // its keys are all endpoints
    return endpoint && serve(endpoint, exchange)
  }
}

/** From the configuration alone: a client chooses `Host`, and would choose where others send their questions. */
function describeEndpoints(url: string): Readonly<Record<string, string>> {
  return {
    policy_decision_point: url,
    access_evaluation_endpoint: `${url}${authzenPaths.evaluation}`,
    access_evaluations_endpoint: `${url}${authzenPaths.evaluations}`,
    search_subject_endpoint: `${url}${authzenPaths['search-subject']}`,
    search_resource_endpoint: `${url}${authzenPaths['search-resource']}`,
    search_action_endpoint: `${url}${authzenPaths['search-action']}`,
  }
}

type Begun = Pick<ReceivedQuestion, 'exchange' | 'requestId' | 'record' | 'observer'>

function receive(stage: Stages, begun: Begun, { headLimits: { usual } }: Snapshot): ReceivedQuestion {
  const { exchange, observer } = begun
  const headers = readHeaders(exchange, usual.headerBytes)
  const client = readClient(exchange, headers, stage.isTrustedProxy)
  observer.onClient(client)
  const target = readTarget(exchange.method, exchange.target, headers.host, usual.targetBytes)
  observer.onTarget(target, headers.host, headers)
  return { ...begun, headers, target, clientAddress: client.address }
}

function requireMethod(endpoint: AuthzenEndpoint, method: string): void {
  const allow = endpoint === 'metadata' ? ['GET', 'HEAD'] : ['POST']
  if (!allow.includes(method)) throw new GatewayError('method_not_allowed', { allow })
}

/** 2.5 KiB for each of 100 evaluations. The whole body is held. */
const bodyLimitBytes = 256 * 1024

async function readBody({ exchange, headers }: ReceivedQuestion): Promise<Buffer> {
  requirePlainBody(exchange.headers)
  if (readMediaType(headers.passing) !== 'application/json') throw refuse('content-type', 'enum')
  return exchange.body.read(bodyLimitBytes)
}

type AnswerOne = (question: AccessQuestion) => Promise<boolean>

async function answerQuestions(endpoint: AuthzenEndpoint, bytes: Buffer, answer: AnswerOne): Promise<unknown> {
  const question = endpoint === 'evaluation' ? readQuestion(bytes) : readQuestionBatch(bytes)
  return 'questions' in question ? answerBatch(question, answer) : { decision: await answer(question) }
}

const notUnderstood = { decision: false, context: { error: { status: 400, message: 'The evaluation is malformed.' } } }

/** Each answer has a turn of the event loop of its own, so that other requests do not wait for a whole batch. */
async function answerBatch({ questions, semantic }: QuestionBatch, evaluate: AnswerOne): Promise<unknown> {
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
