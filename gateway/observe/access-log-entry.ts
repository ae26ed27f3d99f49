import { GatewayError, type RefusalCode } from '../errors/gateway-error.ts'
import type { StreamFailureCode } from '../errors/stream-failure.ts'
import type { Exchange } from '../http/exchange.ts'
import { describeBug, describeError, type LogFields } from './log/log.ts'
import { redact } from './log/redact.ts'

/** What the line will say, and no more: a stream holds it until it ends, and there may be thousands. */
export type AccessLogFacts = {
  clientAddress: string | undefined
  /** On the decision listener the request that is judged is another than the one that asks. */
  method: string | undefined
  path: string | undefined
  route: string | undefined
  userId: number | undefined
  credential: string | undefined
  organizationId: number | undefined
  upstream: string | undefined
  /** What the upstream calls the request, where that is not our id. */
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
  upstreamRequestId: undefined,
  reason: undefined,
  error: undefined,
  streamFailure: undefined,
}

/** A line of more than 4 KiB may be torn where others write to the same pipe; no honest path is so long. */
const pathLimit = 1_024

/** Failures that somebody of ours has to look at. */
export const isBug = ({ error, streamFailure }: AccessLogFacts): boolean =>
  error?.code === 'internal' || streamFailure?.code === 'internal_error'

/** The fields of a request's log line. */
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
    // The query stays out: it is where careless clients put secrets.
    path: path === undefined ? undefined : redact(path).slice(0, pathLimit),
    route,
    status: exchange.status,
    reason,
    cause: error?.exactCause,
    tokenId: error?.details.tokenId,
    userId: facts.userId,
    credential: facts.credential,
    organizationId: facts.organizationId,
    upstream: facts.upstream,
    upstreamRequestId: facts.upstreamRequestId,
    durationMs: Math.round(durationMs * 1000) / 1000,
  }
  // Most requests come to this end, and one shape is written faster than many.
  if (!error && !streamFailure && isComplete) return line
  return {
    ...line,
    ...(error && reason !== error.code && { failure: error.code }),
    ...(streamFailure && { failure: streamFailure.code }),
    ...(!isComplete && { isComplete }),
    ...(streamFailure?.cause !== undefined && { error: describe(streamFailure.code, streamFailure.cause) }),
    // Below 500 a cause describes the client's input, which is none of the log's business.
    ...(error && error.status >= 500 && { error: describe(error.code, error) }),
  }
}

/** Of a bug the place counts where it was thrown, not where we gave it its code. */
const describe = (code: RefusalCode | StreamFailureCode, error: unknown): LogFields =>
  code === 'internal' || code === 'internal_error'
    ? describeBug(error instanceof GatewayError ? (error.cause ?? error) : error)
    : describeError(error)
