import { setImmediate } from 'node:timers/promises'
import { GatewayError } from '../../../base/errors/gateway-error.ts'
import { searchTurnMs } from '../../../rights/paces.ts'
import type { Asker } from './admit.ts'
import { chooseCandidates, type ListCandidates, type SearchResult, type SearchScope } from './candidates.ts'
import type { PageTokens } from './page-tokens.ts'
import { refuse, type Search } from './questions.ts'

export type SearchAnswer = Readonly<{ results: readonly SearchResult[]; page?: Readonly<{ next_token: string }> }>

export type SearchTools = Readonly<{ pageTokens: PageTokens; monotonicMs: () => number }>

export async function search(
  { question, page }: Search,
  asker: Asker,
  scope: Omit<SearchScope, 'organizationId'>,
  { pageTokens, monotonicMs }: SearchTools,
): Promise<SearchAnswer> {
  const { caller, organizationId } = asker
  const bound = JSON.stringify([caller, organizationId, question])
  const start = page.token === undefined ? '' : pageTokens.open(page.token, bound)
  if (start === undefined) throw refuse('page.token', 'unknown')
  const list = await chooseCandidates(question, { ...scope, organizationId })
  const { results, next } = await collectPage(list, start, page.limit, monotonicMs)
  if (next === undefined) return page.isNamed ? { results, page: { next_token: '' } } : { results }
  return { results, page: { next_token: pageTokens.seal(next, bound) } }
}

export type SearchRoom = Readonly<{ requirePlace: (asker: Asker) => void; enter: (asker: Asker) => () => void }>

/** Only counts: a search over its share is refused at once, since a program can ask again, and so nothing waits. */
const most = { ofCaller: 2, ofOrganization: 4, inAll: 16 }

const sharesOf = ({ caller, organizationId }: Asker) =>
  [
    [JSON.stringify(caller), most.ofCaller],
    [`organization ${organizationId}`, most.ofOrganization],
    ['all', most.inAll],
  ] as const

export function createSearchRoom(): SearchRoom {
  const underWay = new Map<string, number>()
  const count = (name: string, change: number): void => {
    const left = (underWay.get(name) ?? 0) + change
    if (left > 0) underWay.set(name, left)
    else underWay.delete(name)
  }
  const requirePlace = (asker: Asker): void => {
    if (sharesOf(asker).some(([name, limit]) => (underWay.get(name) ?? 0) >= limit))
      throw new GatewayError('rate_limited', { retryAfter: '1' })
  }
  return {
    requirePlace,
    enter: (asker) => {
      requirePlace(asker)
      const shares = sharesOf(asker)
      for (const [name] of shares) count(name, 1)
      return () => {
        for (const [name] of shares) count(name, -1)
      }
    },
  }
}

/** A page of 100 takes one query if half of its candidates are allowed, and five at most. */
const partSize = 200
const mostCandidates = 1_000

type Collected = Readonly<{ results: readonly SearchResult[]; next: string | undefined }>

/** A page ends early where many candidates were denied, so that no question costs more than another. */
export async function collectPage(
  list: ListCandidates,
  start: string,
  limit: number,
  monotonicMs: () => number,
): Promise<Collected> {
  const pause = createPause(monotonicMs)
  const results: SearchResult[] = []
  let position = start
  for (let seen = 0; seen < mostCandidates; seen += partSize) {
    const part = await list(position, partSize)
    for (const candidate of part) {
      if (results.length === limit) return { results, next: position }
      if (await candidate.isAllowed()) results.push(candidate.found)
      position = candidate.position
      await pause()
    }
    if (part.length < partSize) return { results, next: undefined }
  }
  return { results, next: position }
}

function createPause(monotonicMs: () => number): () => Promise<void> {
  let startMs = monotonicMs()
  return async () => {
    if (monotonicMs() - startMs < searchTurnMs) return
    await setImmediate()
    startMs = monotonicMs()
  }
}
