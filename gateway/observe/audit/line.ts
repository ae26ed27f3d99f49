import type { GatewayError } from '../../base/errors/gateway-error.ts'
import { nameUser } from '../../directory/directory.ts'
import type { Principal } from '../../stages/authenticate/principal.ts'
import type { Organization } from '../../stages/resolve/organization.ts'
import { readCharacters, redact, redactPath } from '../log/redact.ts'
import { atomicBytes } from './sink.ts'

export type AuditedListener = 'public' | 'decision'

export type AskingProgram = Readonly<{ name: string; organizationId: number | undefined }>

export type AuditedDecision = Readonly<{
  time: Date
  requestId: string
  listener: AuditedListener
  outcome: 'allowed' | 'refused'
  status: number | undefined
  error: Pick<GatewayError, 'code' | 'check' | 'exactCause' | 'details'> | undefined
  principal: Principal | undefined
  evaluator?: AskingProgram | undefined
  organization: Organization | undefined
  isPreflight?: true
  route: string | undefined
  method: string | undefined
  path: string | undefined
  upstreamPath?: string | undefined
  clientAddress: string
}>

export type AuditedEnd = Readonly<{
  time: Date
  openedAt: Date
  requestId: string
  reason: string
  cause: string
  sessionEndId: number | undefined
  userId: number | undefined
  credential: Readonly<{ kind: string; id: number | null }> | undefined
  organizationId: number | undefined
  route: string | undefined
  method: string
  path: string | undefined
  clientAddress: string
  receivedBytes: number
  sentBytes: number
}>

export type AuditedFailure = Readonly<{
  time: Date
  requestId: string
  listener: AuditedListener
  status: number
  reason: string
  cause: string
  userId: number | string | undefined
  credential: string | undefined
  organizationId: number | undefined
  route: string | undefined
  upstream: string | undefined
  method: string | undefined
  path: string | undefined
  clientAddress: string
  durationMs: number
}>

/** A longer line could be mixed with another process's writes, whatever a client sends. */
export const lineLimitBytes = atomicBytes

/** A path with many characters to escape is cut sooner, so that the line fits. */
const pathLimits = [1_024, 256, 64] as const

/** With these a line fits `lineLimitBytes`. Registered methods have at most 17 characters, IPv6 addresses 45. */
const methodLimit = 32
const addressLimit = 64
const nameLimit = 256

/** One line of JSON in visible ASCII, so that no character ends it early for any reader. */
export const composeAuditLine = (decision: AuditedDecision, replica: string): string =>
  fit((pathLimit) => composeDecisionLine(decision, replica, pathLimit))

export const composeFailureLine = (failure: AuditedFailure, replica: string): string =>
  fit((pathLimit) => composeFailure(failure, replica, pathLimit))

function fit(compose: (pathLimit: number) => string): string {
  let line = ''
  for (const pathLimit of pathLimits) {
    line = compose(pathLimit)
    if (line.length <= lineLimitBytes) break
  }
  return line
}

export function composeEndLine(end: AuditedEnd, replica: string): string {
  const { time, openedAt, userId, credential, organizationId, route, path, clientAddress, ...rest } = end
  const line = JSON.stringify({
    audit: 'end',
    time: time.toISOString(),
    ...rest,
    openedAt: openedAt.toISOString(),
    sessionEndId: end.sessionEndId ?? null,
    subject: userId === undefined ? null : { id: userId },
    credential: credential ?? null,
    organizationId: organizationId ?? null,
    route: route ?? null,
    path: cutPath(path, pathLimits[1]).text,
    clientAddress: clientAddress.slice(0, addressLimit),
    replica,
  })
  return escapeLine(line)
}

function composeFailure(failure: AuditedFailure, replica: string, pathLimit: number): string {
  const { time, userId, credential, organizationId, route, upstream, clientAddress, ...rest } = failure
  const path = cutPath(failure.path, pathLimit)
  const method = cut(failure.method, methodLimit)
  const line = JSON.stringify({
    audit: 'failure',
    time: time.toISOString(),
    ...rest,
    subject: userId === undefined ? null : { id: cutName(userId) },
    credential: credential === undefined ? null : { kind: credential },
    organizationId: organizationId ?? null,
    route: route ?? null,
    upstream: upstream ?? null,
    method: method.text,
    path: path.text,
    ...((path.isTruncated || method.isTruncated) && { isTruncated: true }),
    clientAddress: clientAddress.slice(0, addressLimit),
    replica,
  })
  return escapeLine(line)
}

function composeDecisionLine(decision: AuditedDecision, replica: string, pathLimit: number): string {
  const { error, principal, evaluator, organization } = decision
  const path = cutPath(decision.path, pathLimit)
  const upstreamPath = cutPath(decision.upstreamPath, pathLimit)
  const method = cut(decision.method, methodLimit)
  const line = JSON.stringify({
    audit: 'decision',
    time: decision.time.toISOString(),
    requestId: decision.requestId,
    listener: decision.listener,
    outcome: decision.outcome,
    status: decision.status ?? null,
    reason: error?.code ?? (decision.isPreflight ? 'preflight' : null),
    cause: error?.exactCause ?? null,
    check: error?.check ?? null,
    ...(evaluator ? describeProgram(evaluator) : describeCaller(principal)),
    tokenId: error?.details.tokenId ?? null,
    organizationId: organization?.id ?? evaluator?.organizationId ?? null,
    route: decision.route ?? null,
    method: method.text,
    path: path.text,
    ...(upstreamPath.text !== null && { upstreamPath: upstreamPath.text }),
    ...((path.isTruncated || upstreamPath.isTruncated || method.isTruncated) && { isTruncated: true }),
    clientAddress: decision.clientAddress.slice(0, addressLimit),
    replica,
  })
  return escapeLine(line)
}

const escapeLine = (line: string): string => `${line.replace(/[^\x20-\x7e]/g, escapeUnit)}\n`

const cutName = (name: number | string) => (typeof name === 'number' ? name : name.slice(0, nameLimit))

const describeProgram = ({ name }: AskingProgram) => ({
  subject: { id: cutName(name), kind: 'evaluator' },
  credential: { kind: 'certificate', id: null },
})

const describeCaller = (principal: Principal | undefined) => ({
  subject: principal ? describeSubject(principal) : null,
  credential: principal ? describeCredential(principal) : null,
})

const describeSubject = ({ user }: Principal) => ({ id: cutName(nameUser(user)), kind: user.userType })

/** The token's id if there is one, but nothing that could be used as a credential. */
const describeCredential = ({ credential }: Principal) => ({
  kind: credential.kind,
  id: credential.kind === 'api-token' ? credential.id : null,
})

function cut(text: string | undefined, limit: number): Readonly<{ text: string | null; isTruncated: boolean }> {
  if (text === undefined) return { text: null, isTruncated: false }
  const clean = redact(text)
  return { text: clean.slice(0, limit), isTruncated: clean.length > limit }
}

function cutPath(path: string | undefined, limit: number): ReturnType<typeof cut> {
  if (path === undefined) return cut(path, limit)
  const clean = redactPath(path)
  return { text: clean.slice(0, limit), isTruncated: clean.length > limit || path.length > readCharacters }
}

/** Some readers take U+2028 for a line's end, and terminals obey control bytes. */
const escapeUnit = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
