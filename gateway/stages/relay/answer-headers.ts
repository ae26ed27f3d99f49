import type { RawHeaders } from '../../http/exchange.ts'
import { mayKeepSetCookie } from '../locate/cookies.ts'
import type { Upstream } from '../locate/upstream.ts'
import { answerRole } from './answer-role.ts'
import { composeCacheControl } from './shared-caches.ts'

export type AnswerContext = Readonly<{
  upstream: Pick<Upstream, 'answers' | 'cookies'>
  match: Readonly<{ route: Readonly<{ isPublic: boolean }> }>
  requestId: string
  observer: Readonly<{ onUpstreamRequestId: (upstreamRequestId: string) => void }>
}>

export function passingLines(status: number, headers: RawHeaders, context: AnswerContext): RawHeaders {
  const { answers, cookies } = context.upstream
  const isForCaller = !context.match.route.isPublic && answers.cache === 'private' && status !== 101
  const named = connectionNames(headers)
  const kept: string[] = []
  let isStream = false
  let ownId: string | undefined
  let cacheControl: string[] | undefined
  let cacheControlAt = 0
  let pragma: string[] | undefined
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] ?? ''
    const value = headers[index + 1] ?? ''
    const role = answerRole(name)
    if (role === 'hop' || named?.has(name.toLowerCase())) continue
    switch (role) {
      case 'pass':
        break
      case 'length':
        // RFC 9110 8.6: a 204 or a 101 has no Content-Length, but some upstreams send 0.
        if (status === 204 || status === 101) continue
        break
      case 'type':
        isStream = isEventStream(value)
        break
      case 'command':
        if (!answers.passedCommands.has(name.toLowerCase())) continue
        break
      case 'targeted':
        if (isForCaller && !answers.passedCommands.has(name.toLowerCase())) continue
        break
      case 'set-cookie':
        if (!mayKeepSetCookie(value, cookies)) continue
        break
      case 'site':
        if (cookies !== 'forward') continue
        break
      case 'cache-control':
        if (!cacheControl) cacheControlAt = kept.length
        cacheControl = append(cacheControl, value)
        break
      case 'pragma':
        pragma = append(pragma, value)
        break
      case 'request-id':
        if (value === '') continue
        ownId ??= value
        break
      default:
        role satisfies never
    }
    kept.push(name, value)
  }
  if (ownId === undefined) kept.push('x-request-id', context.requestId)
  else context.observer.onUpstreamRequestId(ownId)
  const lines = isForCaller ? keepPrivate(kept, cacheControl, cacheControlAt, pragma) : kept
  // nginx would buffer events until its buffer is full.
  return isStream ? withHeader(lines, 'x-accel-buffering', 'no') : lines
}

/** Keeps the response out of shared caches. `at` is the index of the first Cache-Control header, if there is one. */
function keepPrivate(
  kept: string[],
  cacheControl: readonly string[] | undefined,
  at: number,
  pragma: readonly string[] | undefined,
): RawHeaders {
  const forCaller = composeCacheControl(cacheControl, pragma)
  if (forCaller === undefined) return kept
  if (cacheControl && cacheControl.length > 1) return withHeader(kept, 'cache-control', forCaller)
  if (cacheControl) kept[at + 1] = forCaller
  else kept.push('cache-control', forCaller)
  return kept
}

function append(values: string[] | undefined, value: string): string[] {
  if (values === undefined) return [value]
  values.push(value)
  return values
}

const isEventStream = (mediaType: string): boolean => /^\s*text\/event-stream\s*(?:;|$)/i.test(mediaType)

export function tellsOfEvents(headers: RawHeaders): boolean {
  const value = findHeader(headers, 'content-type')
  return value !== undefined && isEventStream(value)
}

const withHeader = (headers: RawHeaders, name: string, value: string): RawHeaders => [
  ...withoutHeader(headers, name),
  name,
  value,
]

export const withoutHeader = (headers: RawHeaders, dropped: string): RawHeaders =>
  keepLines(headers, (name) => name !== dropped)

export function findHeader(headers: RawHeaders, name: string): string | undefined {
  for (let index = 0; index < headers.length; index += 2) {
    const header = headers[index] ?? ''
    if (header.length === name.length && header.toLowerCase() === name) return headers[index + 1]
  }
  return undefined
}

export function readMediaType(headers: RawHeaders): string | undefined {
  const value = findHeader(headers, 'content-type')
  return value === undefined ? undefined : toMediaType(value)
}

const toMediaType = (value: string): string | undefined => value.split(';', 1)[0]?.trim().toLowerCase()

function keepLines(headers: RawHeaders, isKept: (name: string) => boolean): RawHeaders {
  const kept: string[] = []
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] ?? ''
    if (isKept(name.toLowerCase())) kept.push(name, headers[index + 1] ?? '')
  }
  return kept
}

function connectionNames(headers: RawHeaders): ReadonlySet<string> | undefined {
  let names: Set<string> | undefined
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] ?? ''
    if (name.length !== 10 || name.toLowerCase() !== 'connection') continue
    const value = headers[index + 1] ?? ''
    if (value === 'keep-alive' || value === 'close') continue
    names ??= new Set()
    for (const part of value.split(',')) names.add(part.trim().toLowerCase())
  }
  return names
}
