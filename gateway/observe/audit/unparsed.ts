import type { UnparsedRequest } from '../../engine/engine.ts'
import { GatewayError } from '../../errors/gateway-error.ts'
import type { Audit } from './audit.ts'
import type { Door } from './line.ts'

/** Writes down what was refused before it could be read; of a request that was read there is a line already. */
export const createUnparsedRecorder =
  (audit: Audit, door: Door, now: () => Date) =>
  ({ code, requestId, peerAddress, isBody }: UnparsedRequest): void => {
    if (isBody) return
    const error = new GatewayError(code)
    const recorded = audit.record({
      time: now(),
      requestId,
      door,
      outcome: 'refused',
      status: error.status,
      error,
      principal: undefined,
      organization: undefined,
      route: undefined,
      method: undefined,
      path: undefined,
      clientAddress: peerAddress,
    })
    // Refused it is, written down or not; a line that is lost is counted.
    recorded?.catch(() => undefined)
  }
