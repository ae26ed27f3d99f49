import { GatewayError } from '../../../base/errors/gateway-error.ts'
import { parseUnambiguous } from '../../../base/lib/parse-shallow.ts'

export type NamedEntity = Readonly<{ type: string; id: string }>

export type AccessQuestion = Readonly<{ subject: NamedEntity; action: string; resource: NamedEntity }>

const semantics = ['execute_all', 'deny_on_first_deny', 'permit_on_first_permit'] as const

export type QuestionBatch = Readonly<{
  questions: readonly (AccessQuestion | undefined)[]
  semantic: (typeof semantics)[number]
}>

export type SearchQuestion =
  | Readonly<{ wanted: 'subject'; type: string; action: string; resource: NamedEntity }>
  | Readonly<{ wanted: 'resource'; type: string; subject: NamedEntity; action: string }>
  | Readonly<{ wanted: 'action'; subject: NamedEntity; resource: NamedEntity }>

export type PageRequest = Readonly<{ token: string | undefined; limit: number; isNamed: boolean }>

export type Search = Readonly<{ question: SearchQuestion; page: PageRequest }>

type Members = Readonly<Record<string, unknown>>

/** Properties are free-form and flat in use. Each evaluation and each result may cost queries: 100 bound a request. */
const mostDepth = 10
const mostQuestions = 100
const largestPage = 100
const noPage = {}

export const readQuestion = (bytes: Buffer): AccessQuestion => compose(readMembers(bytes))

/** Without evaluations in it, a batch is one question (AuthZEN 1.0, section 7). */
export function readQuestionBatch(bytes: Buffer): AccessQuestion | QuestionBatch {
  const members = readMembers(bytes)
  const { evaluations = [], options = {}, ...defaults } = members
  if (!Array.isArray(evaluations)) throw refuse('evaluations', 'type')
  if (evaluations.length > mostQuestions) throw refuse('evaluations', 'max')
  if (evaluations.length === 0) return compose(members)
  const { evaluations_semantic: wanted = 'execute_all' } = requireObject(options, 'options')
  const semantic = semantics.find((name) => name === wanted)
  if (semantic === undefined) throw refuse('options.evaluations_semantic', 'enum')
  requireWhole(defaults)
  return { semantic, questions: evaluations.map((item: unknown) => composeItem(item, defaults)) }
}

export function readSearch(wanted: SearchQuestion['wanted'], bytes: Buffer): Search {
  const { subject, action, resource, context = {}, page = noPage } = readMembers(bytes)
  requireObject(context, 'context')
  return { question: composeSearch(wanted, { subject, action, resource }), page: readPage(page, page !== noPage) }
}

function composeSearch(wanted: SearchQuestion['wanted'], { subject, action, resource }: Members): SearchQuestion {
  switch (wanted) {
    case 'subject':
      return {
        wanted,
        type: readType(subject, 'subject'),
        action: readAction(action),
        resource: readEntity(resource, 'resource'),
      }
    case 'resource':
      return {
        wanted,
        type: readType(resource, 'resource'),
        subject: readEntity(subject, 'subject'),
        action: readAction(action),
      }
    case 'action':
      return { wanted, subject: readEntity(subject, 'subject'), resource: readEntity(resource, 'resource') }
    default:
      return wanted satisfies never
  }
}

function readPage(value: unknown, isNamed: boolean): PageRequest {
  const { token = '', limit = largestPage, properties = {} } = requireObject(value, 'page')
  requireObject(properties, 'page.properties')
  if (typeof token !== 'string') throw refuse('page.token', 'type')
  if (typeof limit !== 'number' || !Number.isSafeInteger(limit) || limit < 0) throw refuse('page.limit', 'type')
  return { token: token === '' ? undefined : token, limit: Math.min(limit, largestPage), isNamed }
}

/** The API takes 400 where other endpoints of the gateway answer 422. */
export const refuse = (field: string, rule: keyof typeof rules): GatewayError =>
  new GatewayError('validation_failure', { status: 400, messages: [{ field, rule, message: rules[rule] }] })

const rules = {
  type: 'The value is missing or has another type.',
  enum: 'The value is not one of those that the API has.',
  max: 'There are too many.',
  unknown: 'The token belongs to another caller, question or time. Ask again without it.',
} as const

function readMembers(bytes: Buffer): Members {
  let value: unknown
  try {
    value = parseUnambiguous(new TextDecoder('utf-8', { fatal: true }).decode(bytes), mostDepth)
  } catch (error) {
    throw new GatewayError('body_unparseable', { cause: error })
  }
  return requireObject(value, '')
}

function requireObject(value: unknown, field: string): Members {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw refuse(field, 'type')
  return value as Members
}

function requireWhole({ subject, action, resource, context }: Members): void {
  if (subject !== undefined) readEntity(subject, 'subject')
  if (action !== undefined) readAction(action)
  if (resource !== undefined) readEntity(resource, 'resource')
  if (context !== undefined) requireObject(context, 'context')
}

function composeItem(item: unknown, defaults: Members): AccessQuestion | undefined {
  try {
    return compose({ ...defaults, ...requireObject(item, 'evaluations') })
  } catch {
    return undefined
  }
}

/** Properties and context have a form and no effect, because the asking program alone vouches for them. */
function compose({ subject, action, resource, context = {} }: Members): AccessQuestion {
  requireObject(context, 'context')
  return {
    subject: readEntity(subject, 'subject'),
    action: readAction(action),
    resource: readEntity(resource, 'resource'),
  }
}

function readEntity(value: unknown, field: string): NamedEntity {
  const { id } = requireObject(value, field)
  return { type: readType(value, field), id: requireText(id, `${field}.id`) }
}

function readType(value: unknown, field: string): string {
  const { type, properties = {} } = requireObject(value, field)
  requireObject(properties, `${field}.properties`)
  return requireText(type, `${field}.type`)
}

function readAction(value: unknown): string {
  const { name, properties = {} } = requireObject(value, 'action')
  requireObject(properties, 'action.properties')
  return requireText(name, 'action.name')
}

function requireText(value: unknown, field: string): string {
  if (typeof value !== 'string' || value === '') throw refuse(field, 'type')
  return value
}
