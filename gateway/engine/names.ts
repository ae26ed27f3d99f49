import { lookup as lookupSystem } from 'node:dns'
import type { LookupFunction } from 'node:net'

type Address = Readonly<{ address: string; family: number }>

/** Asks the system, so that /etc/hosts counts, for all addresses of a name. */
export type AskNames = (
  name: string,
  answer: (error: NodeJS.ErrnoException | null, addresses: readonly Address[]) => void,
) => void

export type NamesOptions = Readonly<{
  /** For how long an answer is good; the older one goes on while there is no newer one. */
  cacheMs: number
  ask?: AskNames
  monotonicMs?: () => number
}>

/** The addresses of upstreams' names. */
export type Names = Readonly<{
  /** For `connect`: all addresses, each time another one first. */
  lookup: LookupFunction
  /** How often the addresses have changed; asks again in the background where the answer is too old. */
  countChanges: (name: string) => number
  /** Whether the name still leads there, as far as is known. */
  holds: (name: string, address: string | undefined) => boolean
}>

type Entry = { addresses: readonly Address[]; askedAtMs: number; changes: number; turn: number }

type Waiting = (error: NodeJS.ErrnoException | null, entry?: Entry) => void

/** Names come from the configuration, and from clusters: those of the latter must not add up for ever. */
const maximumNames = 1_000

const askSystem: AskNames = (name, answer) => lookupSystem(name, { all: true, verbatim: true }, answer)

/** Remembers answers for a while: every new connection would else wait for one. */
export function createNames({ cacheMs, ask = askSystem, monotonicMs = () => performance.now() }: NamesOptions): Names {
  const entries = new Map<string, Entry>()
  const waiting = new Map<string, Waiting[]>()

  const take = (name: string, addresses: readonly Address[]): Entry => {
    const known = entries.get(name)
    const isChanged = known !== undefined && !isSameSet(known.addresses, addresses)
    const entry = {
      addresses,
      askedAtMs: monotonicMs(),
      changes: (known?.changes ?? 0) + (isChanged ? 1 : 0),
      turn: known?.turn ?? 0,
    }
    entries.delete(name)
    entries.set(name, entry)
    const [oldest] = entries.keys()
    if (entries.size > maximumNames && oldest !== undefined) entries.delete(oldest)
    return entry
  }
  const refresh = (name: string, onAnswer: Waiting): void => {
    const others = waiting.get(name)
    if (others) {
      others.push(onAnswer)
      return
    }
    waiting.set(name, [onAnswer])
    ask(name, (error, addresses) => {
      const isGood = !error && addresses.length > 0
      const known = entries.get(name)
      const entry = isGood ? take(name, addresses) : known
      // A name server that is down takes no upstream away; it is asked again after a while.
      if (!isGood && known) known.askedAtMs = monotonicMs()
      const tell = waiting.get(name) ?? []
      waiting.delete(name)
      for (const answer of tell) answer(error, entry)
    })
  }
  const isOld = ({ askedAtMs }: Entry): boolean => monotonicMs() - askedAtMs >= cacheMs

  return {
    lookup: (name, options, callback) => {
      const answer: Waiting = (error, entry) => {
        if (!entry) {
          callback(error ?? Object.assign(new Error('no address'), { code: 'ENOTFOUND' }), [])
          return
        }
        const addresses = rotate(entry)
        if (options.all === true) callback(null, [...addresses])
        else callback(null, addresses[0]?.address ?? '', addresses[0]?.family)
      }
      const known = entries.get(name)
      if (known && !isOld(known)) process.nextTick(answer, null, known)
      else refresh(name, answer)
    },
    countChanges: (name) => {
      const known = entries.get(name)
      if (known && isOld(known)) refresh(name, () => undefined)
      return known?.changes ?? 0
    },
    holds: (name, address) => {
      const known = entries.get(name)
      return !known || known.addresses.some((held) => held.address === address)
    },
  }
}

/** Turns the addresses of the family that the system prefers; others stay behind them. */
function rotate(entry: Entry): readonly Address[] {
  const { addresses } = entry
  const preferred = addresses.filter(({ family }) => family === addresses[0]?.family)
  const others = addresses.filter(({ family }) => family !== addresses[0]?.family)
  const first = entry.turn++ % preferred.length
  return [...preferred.slice(first), ...preferred.slice(0, first), ...others]
}

const isSameSet = (left: readonly Address[], right: readonly Address[]): boolean =>
  left.length === right.length && left.every(({ address }) => right.some((other) => other.address === address))
