import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { DirectoryFacts } from '../../directory/directory.ts'
import { clockStepMs } from '../../rights/budget.ts'
import type { AccessEnd, OpenExchange, Opening } from './open-exchange.ts'

export type ExpiryRules = Readonly<{
  endAtExpiry: 'none' | 'websocket' | 'all'
  maxLifeMs: number
  /** The fate of exchanges whose rights cannot be verified: `keep` leaves them open for `unknownMs`. */
  onUnknown: 'keep' | 'end'
  unknownMs: number
}>

export type Clocks = Readonly<{ now: () => Date; monotonicMs: () => number }>

/** Counts on the monotonic clock: a wall clock that is set back prolongs nothing, and one that is set forward shortens. */
export class ExpiryClock {
  readonly #options: Clocks & Pick<ExpiryRules, 'endAtExpiry' | 'maxLifeMs'>
  #wallAheadMs: number
  #latestAheadMs: number

  constructor(options: Clocks & Pick<ExpiryRules, 'endAtExpiry' | 'maxLifeMs'>) {
    this.#options = options
    this.#wallAheadMs = this.#readWallAhead()
    this.#latestAheadMs = this.#wallAheadMs
  }

  get wallAheadMs(): number {
    return this.#wallAheadMs
  }

  find({ proof, openedAtMs }: OpenExchange, { exchange, permit }: Opening): number | undefined {
    const endsAtMs = this.#toMonotonic(proof?.endsAtMs)
    if (endsAtMs === undefined) return undefined
    const { endAtExpiry, maxLifeMs } = this.#options
    const isWebSocket = exchange.isHandshake && permit.match.route.isWebSocket
    const endsWithJwt = endAtExpiry === 'all' || (endAtExpiry === 'websocket' && isWebSocket)
    return proof?.kind === 'api-token' || endsWithJwt ? endsAtMs : Math.max(endsAtMs, openedAtMs + maxLifeMs)
  }

  move(open: OpenExchange, tokens: DirectoryFacts['tokens']): void {
    const { proof } = open
    if (proof?.kind !== 'api-token') return
    const endsAtMs = tokens.get(proof.id)?.expiresAt?.getTime()
    if (endsAtMs === proof.endsAtMs) return
    proof.endsAtMs = endsAtMs
    open.expiresAtMs = this.#toMonotonic(endsAtMs)
  }

  readForwardStepMs(): number {
    const aheadMs = this.#readWallAhead()
    this.#latestAheadMs = aheadMs
    const stepMs = Math.round(aheadMs - this.#wallAheadMs)
    if (Math.abs(stepMs) < clockStepMs) return 0
    this.#wallAheadMs = aheadMs
    return Math.max(0, stepMs)
  }

  #toMonotonic(wallMs: number | undefined): number | undefined {
    return wallMs === undefined ? undefined : Math.ceil(wallMs - this.#latestAheadMs)
  }

  #readWallAhead(): number {
    return this.#options.now().getTime() - this.#options.monotonicMs()
  }
}

export const expiryOf = ({ proof }: OpenExchange): AccessEnd => ({
  code: 'credential_expired',
  refusal: new GatewayError(proof?.kind === 'oauth' ? 'expired' : 'token_expired'),
  isCredential: true,
})
