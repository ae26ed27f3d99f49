import { createPrivateKey } from 'node:crypto'
import { type KeyBlock, readKeyBundle, writeKeyBlock } from '../pin/key-bundle.ts'
import { createKeyring } from '../pin/keyring.ts'
import { sortBySchedule } from '../pin/schedule.ts'
import { algorithmOf, readSigningKeys, type SigningAlgorithm, type SigningKey } from '../pin/signing-keys.ts'

export type RotationOptions = Readonly<{
  generatePem: (algorithm: SigningAlgorithm) => string
  nowMs: number
  /** How long the new key is published before it signs. */
  afterMs: number
  /** Drops a key that has not begun to sign, where there is one, instead of refusing. */
  isForced: boolean
}>

/** A key file with one key more, and without those that are long done. */
export type Rotation = Readonly<{
  text: string
  algorithm: SigningAlgorithm
  fresh: SigningKey
  /** The key that signs until the fresh one does. */
  current: SigningKey
  dropped: readonly SigningKey[]
}>

/** Headers of a key die a minute after its last; the rest is for replicas that learn of a change late. */
const keepSupersededMs = 10 * 60_000

/** Adds a key to a key file's own. Rejects with a sentence where the file, or a rotation under way, forbids it. */
export async function rotateBundle(old: string, options: RotationOptions): Promise<Rotation> {
  const { nowMs, afterMs, isForced, generatePem } = options
  const blocks = readKeyBundle(old)
  const algorithm = findAlgorithm(blocks)
  const keys = await readSigningKeys(old, algorithm)
  // What a gateway would refuse is not carried on.
  const current = createKeyring(keys, () => new Date(nowMs)).signing()
  const sorted = sortBySchedule(keys)
  const pending = sorted.slice(0, sorted.indexOf(current))
  if (pending[0] && !isForced) throw new Error(describePending(pending[0]))

  const dropped = [...pending, ...findLongSuperseded(sorted.slice(pending.length), nowMs)]
  const kept = blocks.filter((_, index) => !dropped.some((key) => key === keys[index]))
  // Later than every other, if by a millisecond: of equal hours the first listed wins.
  const signsFromMs = Math.max(nowMs + afterMs, current.signsFromMs + 1)
  const added = writeKeyBlock(generatePem(algorithm), signsFromMs)
  const text = [...kept.map(({ text }) => text), added].join('\n')
  const fresh = (await readSigningKeys(text, algorithm)).at(-1) ?? current
  return { text, algorithm, fresh, current, dropped }
}

function findAlgorithm([block]: readonly KeyBlock[]): SigningAlgorithm {
  const algorithm = block && readAlgorithm(block)
  if (algorithm === undefined) throw new Error('its first key is none of EdDSA or ES256')
  return algorithm
}

function readAlgorithm({ pem }: KeyBlock): SigningAlgorithm | undefined {
  try {
    return algorithmOf(createPrivateKey(pem))
  } catch {
    return undefined // what is wrong with it might be told in the words of the key
  }
}

const describePending = ({ kid, signsFromMs }: SigningKey): string =>
  `a rotation is under way: key ${kid} signs from ${new Date(signsFromMs).toISOString()}; ` +
  'wait until then, or replace that key with --force'

/** Of the keys whose hour has come, the latest first: each but the first was superseded by the one before it. */
const findLongSuperseded = (due: readonly SigningKey[], nowMs: number): readonly SigningKey[] =>
  due.slice(1).filter((_, index) => nowMs - (due[index]?.signsFromMs ?? nowMs) > keepSupersededMs)
