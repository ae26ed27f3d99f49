import { createLocalJWKSet, type JWK } from 'jose'
import { ownText } from '../../../base/lib/own-text.ts'
import type { ChosenKey } from '../signature.ts'

type Find = ReturnType<typeof createLocalJWKSet>

export type KeysByHeader = Readonly<{
  get: (headerText: string) => ChosenKey | undefined
  set: (headerText: string, key: ChosenKey) => void
}>

/** Tokens of one key share one header. If an issuer puts a new value into each header, this cache cannot help. */
const maxChosen = 16

function createKeysByHeader(): KeysByHeader {
  const keys = new Map<string, ChosenKey>()
  return {
    get: (headerText) => keys.get(headerText),
    set: (headerText, key) => {
      if (keys.size >= maxChosen) keys.clear()
      keys.set(ownText(headerText), key)
    },
  }
}

export type KeyCache = Readonly<{
  /** Says whether the keys are others than before. */
  update: (keys: readonly JWK[], fetchedAtMs: number) => boolean
  find: () => Find | undefined
  keysByHeader: () => KeysByHeader | undefined
  version: () => number | undefined
  ageMs: () => number | undefined
}>

export function createKeyCache(maxStaleMs: number, monotonicMs: () => number): KeyCache {
  let held: Readonly<{ text: string; isEmpty: boolean; find: Find; chosen: KeysByHeader }> | undefined
  let fetchedAtMs = 0
  let version = 0
  const inForce = () => (held && monotonicMs() - fetchedAtMs <= maxStaleMs ? held : undefined)
  return {
    update: (keys, atMs) => {
      const text = fingerprint(keys)
      const isChanged = held?.text !== text
      if (isChanged) {
        held = {
          text,
          isEmpty: keys.length === 0,
          find: createLocalJWKSet({ keys: [...keys] }),
          chosen: createKeysByHeader(),
        }
        version++
      }
      fetchedAtMs = atMs
      return isChanged
    },
    find: () => inForce()?.find,
    keysByHeader: () => inForce()?.chosen,
    version: () => (inForce()?.isEmpty === false ? version : undefined),
    ageMs: () => (held ? monotonicMs() - fetchedAtMs : undefined),
  }
}

export const fingerprint = (keys: readonly JWK[]): string =>
  keys
    .map((key) => JSON.stringify(key))
    .sort()
    .join('\n')
