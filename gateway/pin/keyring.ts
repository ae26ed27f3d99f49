import type { JWK } from 'jose'
import { findDue, sortBySchedule } from './schedule.ts'
import type { SigningKey } from './signing-keys.ts'

/** How long a header is good for. */
export const lifetimeSeconds = 60

/** A header is handed out for so long, and no longer: a backend always has most of its minute left. */
export const reuseMs = 5_100

/** A public key outlasts its key's last signature by this: until nobody can hold one of its headers. */
const retentionMs = lifetimeSeconds * 1_000 + reuseMs

/** The keys of the identity header: one signs, all are published, so that keys can change without a gap. */
export type Keyring = Readonly<{
  /** The key that signs at this moment. */
  signing: () => SigningKey
  /** The public parts of all keys, and of those that are gone while a header of theirs may be alive. */
  published: () => Readonly<{ keys: readonly JWK[] }>
  /** Takes other keys, all of them or none. Throws a sentence when they cannot serve. */
  replace: (keys: readonly SigningKey[]) => void
}>

/** Holds keys of which the one with the latest hour that has come signs. Throws like `replace`. */
export function createKeyring(initial: readonly SigningKey[], now: () => Date): Keyring {
  let keys = initial
  let schedule = compileSchedule(initial)
  let current = requireDue(schedule, now())
  /** By key id: each key that signed, and when it could last have done so. */
  const signed = new Map<string, { readonly published: JWK; lastMs: number }>()

  const signing = (): SigningKey => {
    const nowMs = now().getTime()
    // A clock that was set back before every key's hour changes nothing.
    current = findDue(schedule, nowMs) ?? current
    // Signed or not: what this replica did not sign, another may have, by the same hours.
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
  // Verifiers refuse a key id that stands for two keys, and it would be open which of two hours counts.
  if (new Set(keys.map(({ kid }) => kid)).size < keys.length)
    throw new Error('a key is there twice; remove one of them')
  return sortBySchedule(keys)
}

function requireDue(schedule: readonly SigningKey[], now: Date): SigningKey {
  const due = findDue(schedule, now.getTime())
  if (due) return due
  throw new Error('no key signs yet; let one of them sign from an hour that has come, or without a Signs-From')
}
