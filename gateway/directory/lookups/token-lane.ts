import { timingSafeEqual } from 'node:crypto'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import { guarded } from '../../base/fault/guarded.ts'
import { Turns } from '../../rights/turns.ts'
import type { TokenRecord, WrongSecret } from '../directory.ts'

export type FindHashes = (ids: readonly number[]) => Promise<ReadonlyMap<number, string>>

export type FindTokens = (ids: readonly number[]) => Promise<ReadonlyMap<number, TokenRecord>>

export type TokenLaneOptions = Readonly<{
  findHashes: FindHashes
  findToken: (id: number) => Promise<TokenRecord | undefined>
  findTokens: FindTokens
  width: number
  batchSize: number
  maxWaiting: number
  monotonicMs: () => number
}>

export type TokenLane = Readonly<{
  find: (id: number, hash: string, owner: string) => Promise<FoundToken>
  countWaiting: () => number
}>

type FoundToken = TokenRecord | WrongSecret | undefined

type Claim = Readonly<{
  id: number
  hash: string
  settle: (token: FoundToken | Promise<FoundToken>) => void
  fail: (error: unknown) => void
}>

/** After a wrong token, the next ones count as possible guesses for this time. */
const suspicionMs = 1_000

/**
 * Pause between two queries while guesses arrive. It bounds the guesses per second and their cost to other requests.
 */
const paceMs = 8

/**
 * Guesses share a few connections, so that the others stay free. Owners take turns, so a constant guesser delays
 * another owner by a query or two. One query holds many tokens, so guesses cost little. While guesses arrive, queries
 * wait for the pace.
 *
 * A `WaitingRoom` has a place for each that waits. Here one query serves many, and its failure fails all that wait.
 */
export function createTokenLane(options: TokenLaneOptions): TokenLane {
  const { findHashes, findToken, width, batchSize, maxWaiting, monotonicMs } = options
  const waiting = new Turns<Claim>({ mostWaiting: maxWaiting })
  const pace = createPace(monotonicMs)
  let running = 0
  let isPaused = false
  const judge = ({ hash, settle }: Claim, stored: string | undefined, token: () => ReturnType<typeof findToken>) => {
    if (isSame(hash, stored)) return settle(token())
    pace.noteGuess()
    settle(stored === undefined ? undefined : 'wrong-secret')
  }
  const look = async (claims: readonly Claim[]): Promise<void> => {
    if (!pace.isSuspicious()) {
      const tokens = await findWhole(idsOf(claims), options)
      for (const claim of claims) judge(claim, tokens.get(claim.id)?.hash, async () => tokens.get(claim.id))
      return
    }
    const hashes = await findHashes(idsOf(claims))
    for (const claim of claims) judge(claim, hashes.get(claim.id), () => findToken(claim.id))
  }
  const ask = async (claims: readonly Claim[]): Promise<void> => {
    running += 1
    pace.noteQuestion()
    try {
      await look(claims)
    } catch (error) {
      for (const { fail } of claims) fail(error)
      // The same failure would delay each waiting token as long, one batch after another.
      for (const { fail } of waiting.take(waiting.size)) fail(error)
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
    while (running < width && waiting.size > 0 && !isPaused) {
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
    countWaiting: () => waiting.size,
  }
}

async function findWhole(
  ids: readonly number[],
  { findToken, findTokens }: Pick<TokenLaneOptions, 'findToken' | 'findTokens'>,
): Promise<ReadonlyMap<number, TokenRecord>> {
  const [id, another] = ids
  if (id === undefined || another !== undefined) return findTokens(ids)
  const token = await findToken(id)
  return new Map(token && [[id, token]])
}

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

const idsOf = (claims: readonly Claim[]): readonly number[] => [...new Set(claims.map(({ id }) => id))]

const noHash = '0'.repeat(64)

/** Compares in any case, so that the time of a refusal does not tell whether a token has this id. */
function isSame(claimed: string, stored: string | undefined): boolean {
  const [left, right] = [Buffer.from(claimed, 'hex'), Buffer.from(stored ?? noHash, 'hex')]
  return left.length === 32 && right.length === 32 && timingSafeEqual(left, right) && stored !== undefined
}
