import { LRUCache } from 'lru-cache'
import { GatewayError } from '../../errors/gateway-error.ts'
import type { Directory } from '../directory.ts'
import { type AttemptLimit, createAttempts } from './attempts.ts'
import { createTokenLane, type FindHashes } from './token-lane.ts'

/** What became of a token that no cache knew. */
export type UnknownToken = 'found' | 'refused' | 'throttled' | 'shed'

export type GuardOptions = Readonly<{
  findHashes: FindHashes
  poolSize: number
  /** Tokens remembered as ones that exist. */
  maxEntries: number
  limit: AttemptLimit | undefined
  /** Who takes turns: an address, or the network that one client has of them. */
  ownerOf: (clientAddress: string) => string
  monotonicMs: () => number
  onUnknown: (outcome: UnknownToken, owner: string) => void
}>

/** Read in less than a millisecond. At the lane's pace, 2,000 guesses a second are answered by a process. */
const batchSize = 16

/** At any moment, of all addresses. */
const maxWaiting = 4_096

/** The share of the pool that guesses may take. */
const laneShare = 1 / 3

/**
 * Stands before a store. A token whose checksum is right may still be anybody's guess, and each of these would cost a
 * question; so what has never been found goes through a lane of its own first.
 */
export function guardLookups(store: Directory, options: GuardOptions) {
  const { findHashes, poolSize, maxEntries, limit, ownerOf, monotonicMs, onUnknown } = options
  const width = Math.max(1, Math.floor(poolSize * laneShare))
  const lane = createTokenLane({
    findHashes,
    findToken: async (id) => store.findToken(id, ''),
    width,
    batchSize,
    maxWaiting,
    monotonicMs,
  })
  const attempts = limit && createAttempts(limit, monotonicMs)
  /** Hashes of tokens that were found: whoever brings one of them again does not guess. */
  const found = new LRUCache<number, string>({ max: maxEntries })

  const spend = (owner: string): void => {
    const seconds = attempts?.take(owner)
    if (seconds === undefined) return
    onUnknown('throttled', owner)
    throw new GatewayError('too_many_attempts', { retryAfter: String(seconds) })
  }
  const findUnknown = async (id: number, hash: string, owner: string) => {
    spend(owner)
    const token = await lane.find(id, hash, owner).catch((error: unknown) => {
      if (error instanceof GatewayError && error.code === 'lookups_busy') onUnknown('shed', owner)
      throw error
    })
    onUnknown(token ? 'found' : 'refused', owner)
    if (!token) return undefined
    attempts?.giveBack(owner)
    found.set(id, hash)
    return token
  }
  const directory: Directory = {
    ...store,
    findToken: (id, hash, clientAddress) =>
      clientAddress === undefined || found.get(id) === hash
        ? store.findToken(id, hash)
        : findUnknown(id, hash, ownerOf(clientAddress)),
  }
  return { directory, countWaiting: lane.countWaiting }
}
