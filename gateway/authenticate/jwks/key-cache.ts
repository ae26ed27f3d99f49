import { createLocalJWKSet, type JWK } from 'jose'
import type { ChosenKey } from '../signature.ts'

type Find = ReturnType<typeof createLocalJWKSet>

/** Keys by the header that chose them. */
export type KeysByHeader = Readonly<{
  get: (headerText: string) => ChosenKey | undefined
  set: (headerText: string, key: ChosenKey) => void
}>

/** Tokens of one key have one header; where an issuer writes something of each token's own into it, these help nobody. */
const maxChosen = 16

/** Forgets all of them rather than hold one more. */
function createKeysByHeader(): KeysByHeader {
  const keys = new Map<string, ChosenKey>()
  return {
    get: (headerText) => keys.get(headerText),
    set: (headerText, key) => {
      if (keys.size >= maxChosen) keys.clear()
      keys.set(headerText, key)
    },
  }
}

/** The set in force, for as long as it may serve. */
export type KeyCache = Readonly<{
  update: (keys: readonly JWK[], fetchedAtMs: number) => void
  /** Undefined when there is no set, or when it is too old; another function whenever the set is another. */
  find: () => Find | undefined
  /** As `KeySet` has it. */
  keysByHeader: () => KeysByHeader | undefined
  /** As `KeySet` has it. */
  version: () => number | undefined
  ageMs: () => number | undefined
}>

/** Keeps one set of usable keys, replaced whole; the same keys fetched again are the same set, only younger. */
export function createKeyCache(maxStaleMs: number, monotonicMs: () => number): KeyCache {
  let held: Readonly<{ text: string; isEmpty: boolean; find: Find; chosen: KeysByHeader }> | undefined
  let fetchedAtMs = 0
  let version = 0
  const inForce = () => (held && monotonicMs() - fetchedAtMs <= maxStaleMs ? held : undefined)
  return {
    update: (keys, atMs) => {
      const text = fingerprint(keys)
      if (held?.text !== text) {
        held = {
          text,
          isEmpty: keys.length === 0,
          find: createLocalJWKSet({ keys: [...keys] }),
          chosen: createKeysByHeader(),
        }
        version++
      }
      fetchedAtMs = atMs
    },
    find: () => inForce()?.find,
    keysByHeader: () => inForce()?.chosen,
    version: () => (inForce()?.isEmpty === false ? version : undefined),
    ageMs: () => (held ? monotonicMs() - fetchedAtMs : undefined),
  }
}

/** One text for one set of usable keys, in whatever order an issuer lists them. */
export const fingerprint = (keys: readonly JWK[]): string =>
  keys
    .map((key) => JSON.stringify(key))
    .sort()
    .join('\n')
