import { timingSafeEqual } from 'node:crypto'
import { GatewayError } from '../../errors/gateway-error.ts'
import { guarded } from '../../fault/guarded.ts'
import type { TokenRecord } from '../directory.ts'
import { createTurns } from './turns.ts'

/** The hashes of tokens by their ids; those that do not exist are left out. */
export type FindHashes = (ids: readonly number[]) => Promise<ReadonlyMap<number, string>>

export type TokenLaneOptions = Readonly<{
  findHashes: FindHashes
  findToken: (id: number) => Promise<TokenRecord | undefined>
  /** Questions under way at once. */
  width: number
  /** Tokens asked for with one question. */
  batchSize: number
  maxWaiting: number
  monotonicMs: () => number
}>

/** Asks about tokens that may be guesses. */
export type TokenLane = Readonly<{
  /** The token of this id and hash. Rejects with `lookups_busy` where the owner has too many waiting. */
  find: (id: number, hash: string, owner: string) => Promise<TokenRecord | undefined>
  countWaiting: () => number
}>

type Claim = Readonly<{
  id: number
  hash: string
  settle: (token: TokenRecord | undefined | Promise<TokenRecord | undefined>) => void
  fail: (error: unknown) => void
}>

/** After a wrong claim each of the next may be one as well, for so long. */
const suspicionMs = 1_000

/** Between two questions meanwhile: it bounds how many guesses a second are answered, and what they cost the others. */
const paceMs = 8

/**
 * Guesses share a few connections and leave the others alone. Owners take turns, so that one who guesses without a pause
 * keeps another waiting for a question or two; many claims go into one question, so that guesses cost little. While
 * there are guesses, questions are asked at a pace, and whoever guesses waits.
 */
export function createTokenLane(options: TokenLaneOptions): TokenLane {
  const { findHashes, findToken, width, batchSize, maxWaiting, monotonicMs } = options
  const waiting = createTurns<Claim>(maxWaiting)
  const pace = createPace(monotonicMs)
  let running = 0
  let isPaused = false
  const judge = ({ hash, settle }: Claim, stored: string | undefined, token: () => ReturnType<typeof findToken>) => {
    if (isSame(hash, stored)) return settle(token())
    pace.noteGuess()
    settle(undefined)
  }
  const look = async (claims: readonly Claim[]): Promise<void> => {
    const [first, second] = claims
    // While nobody guesses one question is enough, the whole token's.
    if (first && !second && !pace.isSuspicious()) {
      const token = await findToken(first.id)
      judge(first, token?.hash, async () => token)
      return
    }
    const hashes = await findHashes([...new Set(claims.map(({ id }) => id))])
    for (const claim of claims) judge(claim, hashes.get(claim.id), () => findToken(claim.id))
  }
  const ask = async (claims: readonly Claim[]): Promise<void> => {
    running += 1
    pace.noteQuestion()
    try {
      await look(claims)
    } catch (error) {
      for (const { fail } of claims) fail(error)
      // What failed for these would keep each of the others waiting for as long, one batch after the other.
      for (const { fail } of waiting.take(waiting.size())) fail(error)
    } finally {
      running -= 1
      pump()
    }
  }
  const resume = (): void => {
    isPaused = false
    pump()
  }
  const pump = (): void => {
    while (running < width && waiting.size() > 0 && !isPaused) {
      const waitMs = pace.untilNextMs()
      if (waitMs > 0) {
        isPaused = true
        setTimeout(guarded('directory', resume), Math.ceil(waitMs))
      } else void ask(waiting.take(batchSize))
    }
  }

  return {
    find: (id, hash, owner) =>
      new Promise((settle, fail) => {
        const refused = waiting.push(owner, { id, hash, settle, fail })
        refused?.fail(new GatewayError('lookups_busy', { retryAfter: '1' }))
        pump()
      }),
    countWaiting: waiting.size,
  }
}

/** The distance between two questions: none while no claim was wrong lately. */
function createPace(monotonicMs: () => number) {
  let wrongAtMs = Number.NEGATIVE_INFINITY
  let askedAtMs = Number.NEGATIVE_INFINITY
  const isSuspicious = (): boolean => monotonicMs() - wrongAtMs < suspicionMs
  return {
    isSuspicious,
    noteGuess: (): void => {
      wrongAtMs = monotonicMs()
    },
    noteQuestion: (): void => {
      askedAtMs = monotonicMs()
    },
    untilNextMs: (): number => (isSuspicious() ? askedAtMs + paceMs - monotonicMs() : 0),
  }
}

/** In a time that does not tell where two hashes differ. */
function isSame(claimed: string, stored: string | undefined): boolean {
  const [left, right] = [Buffer.from(claimed, 'hex'), Buffer.from(stored ?? '', 'hex')]
  return left.length === 32 && right.length === 32 && timingSafeEqual(left, right)
}
