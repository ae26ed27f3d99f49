import type { EndedRequest } from '../request-record.ts'
import type { Audit } from './audit.ts'

export const createFailureRecorder =
  (audit: Audit, now: () => Date) =>
  ({ exchange, requestId, listener, facts, decision: refused, durationMs }: EndedRequest): void => {
    const { error, reason, clientAddress, userId, credential, organizationId, route, upstream, method, path } = facts
    const isFailure = error && reason === 'allowed' && !refused && error.code !== 'audit_unavailable'
    if (!isFailure || !audit.isOn) return
    audit.recordFailure({
      time: now(),
      ...{ requestId, listener, userId, credential, organizationId, route, upstream, path },
      status: error.status,
      reason: error.code,
      cause: error.exactCause,
      method: method ?? exchange.method,
      clientAddress: clientAddress ?? exchange.peerAddress,
      durationMs: Math.round(durationMs),
    })
  }
