import { GatewayError } from '../../base/errors/gateway-error.ts'
import { reportFault } from '../../base/fault/guarded.ts'
import { inSlices } from '../../base/lib/in-slices.ts'
import type { Proof } from '../authenticate/principal.ts'
import { endedBy } from './judge-again.ts'
import type { AccessEnd, OpenExchange } from './open-exchange.ts'

type Keys = NonNullable<Extract<Proof, { kind: 'oauth' }>['keys']>

/** Watches the key sets of open exchanges: one that has changed may lack the key of an open exchange. */
export class WithdrawnKeys {
  readonly #versions = new Map<Keys, number | undefined>()
  #latest: Keys | undefined
  readonly #monotonicMs: () => number
  readonly #onEnd: (open: OpenExchange, end: AccessEnd) => void

  constructor(monotonicMs: () => number, onEnd: (open: OpenExchange, end: AccessEnd) => void) {
    this.#monotonicMs = monotonicMs
    this.#onEnd = onEnd
  }

  note({ proof }: OpenExchange): void {
    if (proof?.kind !== 'oauth' || !proof.keys || proof.keys === this.#latest) return
    this.#latest = proof.keys
    if (this.#versions.has(proof.keys)) return
    this.#versions.set(proof.keys, proof.keys.version())
  }

  look(visit: (work: (open: OpenExchange) => void, onEnd: () => void) => void): void {
    for (const [keys, known] of this.#versions) {
      const version = keys.version()
      if (version === known || version === undefined) continue
      this.#versions.set(keys, version)
      const signed: OpenExchange[] = []
      visit(
        (open) => {
          if (open.proof?.kind === 'oauth' && open.proof.keys === keys) signed.push(open)
        },
        () => void this.#check(signed).catch((error: unknown) => reportFault('timer', error)),
      )
    }
  }

  #check(signed: readonly OpenExchange[]): Promise<void> {
    const judge = async (open: OpenExchange): Promise<void> => {
      const end = await findKeyEnd(open)
      if (end) this.#onEnd(open, end)
    }
    return inSlices(signed, judge, this.#monotonicMs)
  }
}

export async function findKeyEnd({ proof }: OpenExchange): Promise<AccessEnd | undefined> {
  if (proof?.kind !== 'oauth' || proof.isVerifiedByCurrentKeys || (await proof.isKeyListed()) !== false)
    return undefined
  return endedBy(new GatewayError('key_withdrawn'), true)
}
