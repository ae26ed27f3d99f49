import { GatewayError, type RefusalCode } from '../base/errors/gateway-error.ts'
import type { StreamFailureCode } from '../base/errors/stream-failure.ts'
import type { Exchange } from '../http/exchange.ts'
import { describeBug, describeError, type LogFields } from './log/log.ts'
import { redactPath } from './log/redact.ts'

/** Only the fields of the line: a stream holds them until it ends, and there may be thousands. */
export type AccessLogFacts = {
  clientAddress: string | undefined
  /** On the decision listener this is the judged request, not the one that carries it. */
  method: string | undefined
  path: string | undefined
  route: string | undefined
  userId: number | string | undefined
  credential: string | undefined
  organizationId: number | undefined
  upstream: string | undefined
  upstreamPath: string | undefined
  upstreamRequestId: string | undefined
  reason: string | undefined
  error: GatewayError | undefined
  streamFailure: Readonly<{ code: StreamFailureCode; cause: unknown }> | undefined
}

export const noFacts: AccessLogFacts = {
  clientAddress: undefined,
  method: undefined,
  path: undefined,
  route: undefined,
  userId: undefined,
  credential: undefined,
  organizationId: undefined,
  upstream: undefined,
  upstreamPath: undefined,
  upstreamRequestId: undefined,
  reason: undefined,
  error: undefined,
  streamFailure: undefined,
}

/** A line of more than 4 KiB may be torn if other processes write to the same pipe. */
const pathLimit = 1_024

export const isBug = ({ error, streamFailure }: AccessLogFacts): boolean =>
  error?.code === 'internal' || streamFailure?.code === 'internal_error'

export function composeEntry(
  exchange: Exchange,
  requestId: string,
  facts: AccessLogFacts,
  durationMs: number,
  isComplete: boolean,
): LogFields {
  const { clientAddress, method, path, route, reason, error, streamFailure } = facts
  const line = {
    requestId,
    clientAddress: clientAddress ?? exchange.peerAddress,
    method: method ?? exchange.method,
    path: cutPath(path),
    route,
    status: exchange.status,
    reason,
    cause: error?.exactCause,
    tokenId: error?.details.tokenId,
    userId: facts.userId,
    credential: facts.credential,
    organizationId: facts.organizationId,
    upstream: facts.upstream,
    upstreamPath: cutPath(facts.upstreamPath),
    upstreamRequestId: facts.upstreamRequestId,
    durationMs: Math.round(durationMs * 1000) / 1000,
  }
  // Most requests end here, and one object shape is written faster than many.
  const isPlain = !error || (error.status < 500 && reason === error.code)
  if (isPlain && !streamFailure && isComplete) return line
  return {
    ...line,
    ...(error && reason !== error.code && { failure: error.code }),
    ...(streamFailure && { failure: streamFailure.code }),
    ...(!isComplete && { isComplete }),
    ...(streamFailure?.cause !== undefined && { error: describe(streamFailure.code, streamFailure.cause) }),
    // Below 500 a cause describes the client's input, which does not belong in the log.
    ...(error && error.status >= 500 && { error: describe(error.code, error) }),
  }
}

const cutPath = (path: string | undefined): string | undefined =>
  path === undefined ? undefined : redactPath(path).slice(0, pathLimit)

const describe = (code: RefusalCode | StreamFailureCode, error: unknown): LogFields =>
  code === 'internal' || code === 'internal_error'
    ? describeBug(error instanceof GatewayError ? (error.cause ?? error) : error)
    : describeError(error)
