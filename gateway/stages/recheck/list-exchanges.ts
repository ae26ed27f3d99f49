import type { SessionFilter } from '../../directory/directory.ts'
import { parseId } from '../resolve/organization-id.ts'
import type { OpenExchange } from './open-exchange.ts'

/** The oldest come first, so that exchanges that open meanwhile move no page. */
export type ExchangeQuery = Readonly<{ filter: SessionFilter; after: Place | undefined; limit: number }>

export type Place = readonly [openedAtMs: number, processId: number, number: number]

export type ListedExchange = Readonly<{
  place: Place
  kind: 'stream' | 'websocket' | 'response' | 'request'
  requestId: string
  method: string
  path: string | undefined
  route: string | undefined
  upstream: string
  userId: number | undefined
  organizationId: number | undefined
  credential: 'oauth' | 'api-token' | undefined
  tokenId: number | undefined
  clientAddress: string
  receivedBytes: number
  sentBytes: number
}>

export type ExchangePage = Readonly<{ total: number; exchanges: readonly ListedExchange[] }>

/** At under 1 KiB each a page fits the 2 MiB that `sallyport sessions` reads. A person reads a hundred. */
export const pageLimit = 1_000
const usualLimit = 100

/** Twice the longest value, a request id of 128 characters. */
const wordLimit = 256

export function readExchangeQuery(parameters: URLSearchParams): ExchangeQuery | string {
  const unread: string[] = []
  const read = <Value>(name: string, parse: (text: string) => Value | undefined): Value | undefined => {
    const text = parameters.get(name)
    if (text === null || text === '') return undefined
    const value = text.length > wordLimit ? undefined : parse(text)
    if (value === undefined) unread.push(name)
    return value
  }
  const filter = {
    userId: read('user', parseId) ?? null,
    organizationId: read('organization', parseId) ?? null,
    tokenId: read('token', parseId) ?? null,
    route: read('route', (text) => text) ?? null,
    requestId: read('request', (text) => text) ?? null,
  }
  const limit = read('limit', (text) => between(1, parseId(text), pageLimit)) ?? usualLimit
  const after = read('after', parsePlace)
  return unread.length > 0 ? `${unread.join(', ')} cannot be read` : { filter, after, limit }
}

const between = (least: number, value: number | undefined, most: number): number | undefined =>
  value !== undefined && value >= least && value <= most ? value : undefined

const placePattern = /^(\d{1,15})\.(\d{1,10})\.(\d{1,15})$/

function parsePlace(text: string): Place | undefined {
  const [, openedAt, process, number] = placePattern.exec(text) ?? []
  return number === undefined ? undefined : [Number(openedAt), Number(process), Number(number)]
}

export const formatPlace = (place: Place): string => place.join('.')

const compare = ([ms, process, number]: Place, [otherMs, otherProcess, otherNumber]: Place): number =>
  ms - otherMs || process - otherProcess || number - otherNumber

export function matchesFilter(open: OpenExchange, filter: SessionFilter): boolean {
  const { userId, organizationId, tokenId, route, requestId } = filter
  const { proof } = open
  if (userId !== null && open.userId !== userId) return false
  if (organizationId !== null && open.organizationId !== organizationId) return false
  if (tokenId !== null) {
    if (proof?.kind !== 'api-token') return false
    if (proof.id !== tokenId && !proof.ancestors.some(({ id }) => id === tokenId)) return false
  }
  if (route === null && requestId === null) return true
  const facts = open.describeOpening()
  return (route === null || facts.route === route) && (requestId === null || facts.requestId === requestId)
}

type Origin = Readonly<{ epochMs: number; processId: number }>

export class PageOfExchanges {
  readonly #query: ExchangeQuery
  readonly #origin: Origin
  #found: (readonly [Place, OpenExchange])[] = []
  #total = 0

  constructor(query: ExchangeQuery, origin: Origin) {
    this.#query = query
    this.#origin = origin
  }

  add(open: OpenExchange): void {
    const { filter, after, limit } = this.#query
    if (open.end || !matchesFilter(open, filter)) return
    this.#total += 1
    const { epochMs, processId } = this.#origin
    const place: Place = [epochMs + open.openedAtMs, processId, open.number]
    if (after && compare(place, after) <= 0) return
    this.#found.push([place, open])
    if (this.#found.length >= 2 * limit) this.#cut()
  }

  finish(): ExchangePage {
    this.#cut()
    return { total: this.#total, exchanges: this.#found.map(([place, open]) => describe(place, open)) }
  }

  #cut(): void {
    const sorted = this.#found.sort(([one], [other]) => compare(one, other))
    // One that took the slot of another meanwhile was visited twice.
    this.#found = sorted.filter(([, open], index) => open !== sorted[index - 1]?.[1]).slice(0, this.#query.limit)
  }
}

export const mergePages = (pages: readonly ExchangePage[], limit: number): ExchangePage => ({
  total: pages.reduce((sum, { total }) => sum + total, 0),
  exchanges: pages
    .flatMap(({ exchanges }) => exchanges)
    .sort((one, other) => compare(one.place, other.place))
    .slice(0, limit),
})

function describe(place: Place, open: OpenExchange): ListedExchange {
  const { exchange, proof } = open
  const { received, sent } = exchange.passedBytes
  return {
    ...open.describeOpening(),
    place,
    kind: kindOf(open),
    method: exchange.method,
    upstream: open.upstreamName,
    userId: open.userId,
    organizationId: open.organizationId,
    credential: proof?.kind,
    tokenId: proof?.kind === 'api-token' ? proof.id : undefined,
    receivedBytes: received,
    sentBytes: sent,
  }
}

function kindOf({ exchange, stream }: OpenExchange): ListedExchange['kind'] {
  if (exchange.status === 101) return 'websocket'
  if (stream) return 'stream'
  return exchange.hasStarted ? 'response' : 'request'
}
