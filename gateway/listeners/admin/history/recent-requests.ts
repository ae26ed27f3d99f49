import type { AuditedListener } from '../../../observe/audit/line.ts'
import { redactPath } from '../../../observe/log/redact.ts'

export const requestKinds = ['refusal', 'failure', 'slow'] as const

export type RequestKind = (typeof requestKinds)[number]

export type RecentRequest = Readonly<{
  kind: RequestKind
  timeMs: number
  requestId: string
  listener: AuditedListener
  status: number | undefined
  reason: string
  cause: string
  tokenId: number | undefined
  method: string | undefined
  path: string | undefined
  route: string | undefined
  upstream: string | undefined
  upstreamPath?: string | undefined
  userId: number | string | undefined
  organizationId: number | undefined
  clientAddress: string
  durationMs: number | undefined
}>

export type RequestFilter = Readonly<{
  kind: string
  reason: string
  route: string
  upstream: string
  text: string
  requestId: string
}>

/** Enough to show the pattern of a cause. */
const groupSize = 24

/** Above the causes of refusals; failures have a group a route. At under 1 KiB a request, all take 3 MB at most. */
const groupLimit = 128

/** As many as a person reads; the form finds the others. */
export const listLimit = 100

/** A full group takes no more than one request of an address in this time: a flood would only replace its own. */
const floodMs = 10

/** So much of a path names its route. An address has at most 45 characters, and an id twice a word. */
const pathLimit = 256
const wordLimit = 64

type Group = { readonly requests: RecentRequest[]; newestMs: number }

type Ended = Pick<RecentRequest, 'kind' | 'cause' | 'route' | 'timeMs' | 'clientAddress'>

/**
 * The newest refusals, failures and slow requests. Each cause has its own space, in which the address with the most
 * requests loses its oldest first. So neither a flood of one cause nor one client pushes out the others.
 */
export class RecentRequests {
  readonly #groups = new Map<string, Group>()

  wants(request: Ended): boolean {
    const group = this.#groups.get(keyOf(request))
    if (!group || group.requests.length < groupSize || request.timeMs - group.newestMs >= floodMs) return true
    return group.requests.at(-1)?.clientAddress !== request.clientAddress
  }

  remember(request: RecentRequest): void {
    const key = keyOf(request)
    const group = this.#groups.get(key) ?? this.#addGroup(key)
    if (group.requests.length >= groupSize) group.requests.splice(findCrowded(group.requests), 1)
    group.requests.push(cut(request))
    group.newestMs = request.timeMs
  }

  read(filter: RequestFilter): readonly RecentRequest[] {
    const all = [...this.#groups.values()].flatMap(({ requests }) => requests)
    return newestOf(all.filter(matchesFilter(filter)))
  }

  #addGroup(key: string): Group {
    if (this.#groups.size >= groupLimit) this.#groups.delete(findOldest(this.#groups))
    const group = { requests: [], newestMs: 0 }
    this.#groups.set(key, group)
    return group
  }
}

/** A client can cause refusals at every route, and must not create as many groups. */
const keyOf = ({ kind, cause, route }: Ended): string => (kind === 'refusal' ? cause : `${kind} ${cause} ${route}`)

export const mergeRequests = (parts: readonly (readonly RecentRequest[])[]): readonly RecentRequest[] =>
  newestOf(parts.flat())

const newestOf = (requests: readonly RecentRequest[]): readonly RecentRequest[] =>
  // Reversed first: of requests that ended in the same millisecond, the newest was remembered last.
  [...requests]
    .reverse()
    .sort((one, other) => other.timeMs - one.timeMs)
    .slice(0, listLimit)

function findCrowded(requests: readonly RecentRequest[]): number {
  const counts = new Map<string, number>()
  for (const { clientAddress } of requests) counts.set(clientAddress, (counts.get(clientAddress) ?? 0) + 1)
  let crowded = 0
  let most = 0
  for (const [index, { clientAddress }] of requests.entries()) {
    const count = counts.get(clientAddress) ?? 0
    if (count <= most) continue
    crowded = index
    most = count
  }
  return crowded
}

function findOldest(groups: ReadonlyMap<string, Group>): string {
  let oldest = ''
  let oldestMs = Number.POSITIVE_INFINITY
  for (const [key, { newestMs }] of groups) {
    if (newestMs >= oldestMs) continue
    oldest = key
    oldestMs = newestMs
  }
  return oldest
}

const cutPath = (path: string | undefined): string | undefined =>
  path === undefined ? undefined : redactPath(path).slice(0, pathLimit)

const cut = (request: RecentRequest): RecentRequest => ({
  ...request,
  requestId: request.requestId.slice(0, 2 * wordLimit),
  method: request.method?.slice(0, wordLimit),
  // Redaction comes first: half a token would not be recognized.
  path: cutPath(request.path),
  upstreamPath: cutPath(request.upstreamPath),
  clientAddress: request.clientAddress.slice(0, wordLimit),
})

function matchesFilter(filter: RequestFilter): (request: RecentRequest) => boolean {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean)
  const isAsked = (asked: string, value: string | undefined): boolean => asked === '' || asked === value
  return (request) =>
    isAsked(filter.kind, request.kind) &&
    (isAsked(filter.reason, request.reason) || filter.reason === request.cause) &&
    isAsked(filter.route, request.route) &&
    isAsked(filter.upstream, request.upstream) &&
    isAsked(filter.requestId, request.requestId) &&
    (words.length === 0 || containsAll(describe(request), words))
}

const containsAll = (text: string, words: readonly string[]): boolean => words.every((word) => text.includes(word))

const describe = (request: RecentRequest): string =>
  [
    ...[request.status, request.reason, request.cause, request.method, request.path, request.route, request.upstream],
    request.upstreamPath ?? '',
    ...[request.clientAddress, request.requestId],
    request.tokenId === undefined ? '' : `token:${request.tokenId}`,
    request.userId === undefined ? '' : `user:${request.userId}`,
    request.organizationId === undefined ? '' : `organization:${request.organizationId}`,
  ]
    .join(' ')
    .toLowerCase()
