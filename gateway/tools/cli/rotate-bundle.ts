import { createPrivateKey } from 'node:crypto'
import { type KeyBlock, readKeyBundle, writeKeyBlock } from '../../stages/pin/key-bundle.ts'
import { createKeyring } from '../../stages/pin/keyring.ts'
import { sortBySchedule } from '../../stages/pin/schedule.ts'
import { algorithmOf, readSigningKeys, type SigningAlgorithm, type SigningKey } from '../../stages/pin/signing-keys.ts'

export type RotationOptions = Readonly<{
  generatePem: (algorithm: SigningAlgorithm) => string
  nowMs: number
  afterMs: number
  isForced: boolean
}>

export type Rotation = Readonly<{
  text: string
  algorithm: SigningAlgorithm
  fresh: SigningKey
  current: SigningKey
  dropped: readonly SigningKey[]
}>

/** A signed identity header expires after a minute; the rest is for replicas that see the change late. */
const keepSupersededMs = 10 * 60_000

export async function rotateBundle(old: string, options: RotationOptions): Promise<Rotation> {
  const { nowMs, afterMs, isForced, generatePem } = options
  const blocks = readKeyBundle(old)
  const algorithm = findAlgorithm(blocks)
  const keys = await readSigningKeys(old, algorithm)
  const current = createKeyring(keys, () => new Date(nowMs)).signing()
  const sorted = sortBySchedule(keys)
  const pending = sorted.slice(0, sorted.indexOf(current))
  if (pending[0] && !isForced) throw new Error(describePending(pending[0]))

  const dropped = [...pending, ...findLongSuperseded(sorted.slice(pending.length), nowMs)]
  const kept = blocks.filter((_, index) => !dropped.some((key) => key === keys[index]))
  // A millisecond later than every other key: of equal times the first listed wins.
  const signsFromMs = Math.max(nowMs + afterMs, current.signsFromMs + 1)
  const added = writeKeyBlock(generatePem(algorithm), signsFromMs)
  const text = [...kept.map(({ text }) => text), added].join('\n')
  const fresh = (await readSigningKeys(text, algorithm)).at(-1) ?? current
  return { text, algorithm, fresh, current, dropped }
}

function findAlgorithm([block]: readonly KeyBlock[]): SigningAlgorithm {
  const algorithm = block && readAlgorithm(block)
  if (algorithm === undefined) throw new Error('its first key is neither EdDSA nor ES256')
  return algorithm
}

function readAlgorithm({ pem }: KeyBlock): SigningAlgorithm | undefined {
  try {
    return algorithmOf(createPrivateKey(pem))
  } catch {
    return undefined // the error may quote the key
  }
}

const describePending = ({ kid, signsFromMs }: SigningKey): string =>
  `a rotation is under way: key ${kid} signs from ${new Date(signsFromMs).toISOString()}; ` +
  'wait until then, or replace that key with --force'

const findLongSuperseded = (due: readonly SigningKey[], nowMs: number): readonly SigningKey[] =>
  due.slice(1).filter((_, index) => nowMs - (due[index]?.signsFromMs ?? nowMs) > keepSupersededMs)
