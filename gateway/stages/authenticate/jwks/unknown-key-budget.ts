import { createBoundedMap } from '../../../base/lib/bounded-map.ts'
import { readNetwork } from '../../../base/network/network.ts'

/** How often unknown keys of some addresses may ask the issuer: all of them together, and one alone. */
type Pace = Readonly<{ togetherMs: number; aloneMs: number }>

/** A stranger costs nothing to be, so many of them must not make a flood at the issuer (SPEC 2.4). */
const strangers: Pace = { togetherMs: 30_000, aloneMs: 300_000 }

/**
 * An address that has sent a token of this issuer. Alone it has what all strangers have together, because all clients
 * may stand behind one proxy. One tenant must not spend the fetch of the others, so theirs comes soon after its.
 */
const proven: Pace = { togetherMs: 5_000, aloneMs: 30_000 }

/** Networks of clients, by the order in which they sent a new token last. */
const maxProven = 10_000

/** A stranger's fetch counts for as long as ten of them take. */
const maxStrangers = strangers.aloneMs / strangers.togetherMs

/** A key set served from caches may lack a new key for some time after a refresh. */
const spareMs = 30_000

/** The gateway's own questions, and those of transmitters that have shown their secret, have no client's address. */
const own = ''

export type UnknownKeyBudget = Readonly<{
  noteProven: (clientAddress: string | undefined) => void
  /** A refresh that brings nothing new allows one fetch more: the key may have been published right after it. */
  noteRefresh: (isChanged: boolean, nowMs: number) => void
  /** Whether an unknown key from this address may ask the issuer now; if so, counts it. */
  take: (clientAddress: string | undefined, nowMs: number) => boolean
}>

export function createUnknownKeyBudget(): UnknownKeyBudget {
  const provenPurse = createPurse(proven, maxProven)
  const strangersPurse = createPurse(strangers, maxStrangers)
  let spareUntilMs = Number.NEGATIVE_INFINITY
  provenPurse.admit(own)
  return {
    noteProven: (clientAddress) => {
      if (clientAddress !== undefined) provenPurse.admit(readNetwork(clientAddress))
    },
    noteRefresh: (isChanged, nowMs) => {
      spareUntilMs = isChanged ? Number.NEGATIVE_INFINITY : nowMs + spareMs
    },
    take: (clientAddress, nowMs) => {
      const network = clientAddress === undefined ? own : readNetwork(clientAddress)
      if (network !== own && !provenPurse.has(network)) return strangersPurse.take(network, nowMs)
      if (provenPurse.take(network, nowMs)) return true
      if (nowMs > spareUntilMs) return false
      spareUntilMs = Number.NEGATIVE_INFINITY
      return true
    },
  }
}

type Spent = { atMs: number }

function createPurse({ togetherMs, aloneMs }: Pace, maxEntries: number) {
  const spent = createBoundedMap<Spent>(maxEntries)
  let lastMs = Number.NEGATIVE_INFINITY
  return {
    has: (network: string): boolean => spent.get(network) !== undefined,
    admit: (network: string): void => {
      if (!spent.get(network)) spent.set(network, { atMs: Number.NEGATIVE_INFINITY })
    },
    take: (network: string, nowMs: number): boolean => {
      const isEarly = nowMs - lastMs < togetherMs || nowMs - (spent.get(network)?.atMs ?? -Infinity) < aloneMs
      if (isEarly) return false
      lastMs = nowMs
      spent.set(network, { atMs: nowMs })
      return true
    },
  }
}
