// Lookups of tokens that no cache knows: a lane of its own, so that guesses leave the pool to known callers.
import { LRUCache } from 'lru-cache'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import { type AttemptLimit, createAttempts } from '../../base/lib/attempts.ts'
import type { Directory, DirectoryStore } from '../directory.ts'
import { createTokenLane, type FindHashes, type FindTokens } from './token-lane.ts'

export type UnknownToken = 'found' | 'refused' | 'throttled' | 'shed'

export type GuardOptions = Readonly<{
  findHashes: FindHashes
  findTokens: FindTokens
  poolSize: number
  maxEntries: number
  limit: AttemptLimit | undefined
  ownerOf: (clientAddress: string) => string
  monotonicMs: () => number
  onUnknown: (outcome: UnknownToken, owner: string) => void
}>

/** One query of this size takes under a millisecond. At the lane's pace, a process handles 2,000 guesses a second. */
const batchSize = 16

/** At 2,000 guesses a second none waits longer than two seconds, by which an outage is a 503 as well. */
const maxWaiting = 4_096

const laneShare = 1 / 3

/**
 * Sends tokens that were never found through a lane of their own. A correct checksum does not prove a token, and each
 * guess costs a query.
 */
export function guardLookups(store: DirectoryStore, options: GuardOptions) {
  const { findHashes, findTokens, poolSize, maxEntries, limit, ownerOf, monotonicMs, onUnknown } = options
  const width = Math.max(1, Math.floor(poolSize * laneShare))
  const lane = createTokenLane({
    findHashes,
    findToken: async (id) => store.findToken(id),
    findTokens,
    width,
    batchSize,
    maxWaiting,
    monotonicMs,
  })
  const attempts = limit && createAttempts(limit, monotonicMs)
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
    if (token === undefined || token === 'wrong-secret') {
      onUnknown('refused', owner)
      return token
    }
    onUnknown('found', owner)
    attempts?.giveBack(owner)
    found.set(id, hash)
    return token
  }
  const directory: Directory = {
    ...store,
    findToken: (id, hash, clientAddress) =>
      clientAddress === undefined || found.get(id) === hash
        ? store.findToken(id)
        : findUnknown(id, hash, ownerOf(clientAddress)),
  }
  return { directory, countWaiting: lane.countWaiting }
}
