import type { JWK } from 'jose'
import { findDue, sortBySchedule } from './schedule.ts'
import type { SigningKey } from './signing-keys.ts'

/** SPEC section 11: `exp` - `iat` is exactly 60. */
export const lifetimeSeconds = 60

/** A header is reused for at most this long, so that a backend has most of its lifetime left. */
export const reuseMs = 5_100

/**
 * A public key stays published this long after its last signature, until the last header that it verifies has expired.
 */
const retentionMs = lifetimeSeconds * 1_000 + reuseMs

export type Keyring = Readonly<{
  signing: () => SigningKey
  published: () => Readonly<{ keys: readonly JWK[] }>
  replace: (keys: readonly SigningKey[]) => void
}>

export function createKeyring(initial: readonly SigningKey[], now: () => Date): Keyring {
  let keys = initial
  let schedule = compileSchedule(initial)
  let current = requireDue(schedule, now())
  const signed = new Map<string, { readonly published: JWK; lastMs: number }>()

  const signing = (): SigningKey => {
    const nowMs = now().getTime()
    // A clock that was set back before every key's start changes nothing.
    current = findDue(schedule, nowMs) ?? current
    // Noted even without a signature here, because another replica may have signed with the key.
    const { kid, published } = current
    const before = signed.get(kid)
    if (before?.published === published) before.lastMs = nowMs
    else signed.set(kid, { published, lastMs: nowMs })
    return current
  }
  return {
    signing,
    published: () => {
      const oldestMs = now().getTime() - retentionMs
      for (const [kid, { lastMs }] of signed) if (lastMs < oldestMs) signed.delete(kid)
      const gone = new Map([...signed].map(([kid, { published }]) => [kid, published]))
      for (const { kid } of keys) gone.delete(kid)
      return { keys: [...keys.map(({ published }) => published), ...gone.values()] }
    },
    replace: (fresh) => {
      const arranged = compileSchedule(fresh)
      const due = requireDue(arranged, now())
      signing()
      keys = fresh
      schedule = arranged
      current = due
    },
  }
}

function compileSchedule(keys: readonly SigningKey[]): readonly SigningKey[] {
  // Verifiers refuse a key id that stands for two keys, and the two start times could differ.
  if (new Set(keys.map(({ kid }) => kid)).size < keys.length)
    throw new Error('a key is listed twice; remove one of them')
  return sortBySchedule(keys)
}

function requireDue(schedule: readonly SigningKey[], now: Date): SigningKey {
  const due = findDue(schedule, now.getTime())
  if (due) return due
  throw new Error('no key may sign yet; set the Signs-From of one key to the past, or remove it')
}
