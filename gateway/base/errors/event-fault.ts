import type { GatewayError, RefusalCause } from './gateway-error.ts'

const descriptions = {
  invalid_request: 'The security event token is malformed, or its event or subject is not understood.',
  invalid_key: 'The key or the signature is not one of the transmitter.',
  invalid_issuer: 'The issuer is not the one of this transmitter.',
  invalid_audience: 'The audience is another one.',
  authentication_failed: 'The transmitter is not authenticated.',
  access_denied: 'The transmitter does not speak for the issuer of this subject.',
  invalid_state: 'The state is not one that was asked for.',
} as const

export type EventErrorCode = keyof typeof descriptions

export type EventError = Readonly<{ err: EventErrorCode; description: string }>

const codeOfFault = {
  claims_forbidden: 'invalid_request',
  event_malformed: 'invalid_request',
  subject_unsupported: 'invalid_request',
  other_issuer: 'access_denied',
  secret_wrong: 'authentication_failed',
  state_wrong: 'invalid_state',
} as const satisfies Readonly<Record<string, EventErrorCode>>

type FaultCause = keyof typeof codeOfFault

export class EventFault extends Error {
  override readonly name = 'EventFault'
  readonly exactCause: FaultCause

  constructor(exactCause: FaultCause) {
    super(descriptions[codeOfFault[exactCause]])
    this.exactCause = exactCause
  }
}

const codeOfCause: Readonly<Partial<Record<RefusalCause, EventErrorCode>>> = {
  unknown_issuer: 'invalid_issuer',
  wrong_audience: 'invalid_audience',
  algorithm_not_allowed: 'invalid_key',
  unknown_key: 'invalid_key',
  ambiguous_key: 'invalid_key',
  bad_signature: 'invalid_key',
}

export function describeEventError(fault: EventFault | GatewayError): EventError {
  const err =
    fault instanceof EventFault ? codeOfFault[fault.exactCause] : (codeOfCause[fault.exactCause] ?? 'invalid_request')
  return { err, description: descriptions[err] }
}
