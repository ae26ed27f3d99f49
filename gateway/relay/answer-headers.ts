import type { RawHeaders } from '../engine/exchange.ts'

/** Lines about the upstream's connection, not about its answer (RFC 9110 7.6.1). */
const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** The lines of an upstream's answer that are about the answer. */
export function withoutHopByHop(headers: RawHeaders): RawHeaders {
  const named = connectionNames(headers)
  return keepLines(headers, (name) => !hopByHop.has(name) && !named?.has(name))
}

/** The lines of an answer that go on to the client. RFC 9110 8.6: a 204 names no length; some upstreams say 0. */
export const passingLines = (status: number, headers: RawHeaders): RawHeaders =>
  status === 204 ? withoutHeader(withoutHopByHop(headers), 'content-length') : withoutHopByHop(headers)

/** The lines of every other name, which is given in lower case. */
export const withoutHeader = (headers: RawHeaders, dropped: string): RawHeaders =>
  keepLines(headers, (name) => name !== dropped)

/** The value of the first line of a name, which is given in lower case. */
export function findHeader(headers: RawHeaders, name: string): string | undefined {
  for (let index = 0; index < headers.length; index += 2)
    if (headers[index]?.toLowerCase() === name) return headers[index + 1]
  return undefined
}

/** The media type alone, in lower case (RFC 9110 8.3.1). */
export const readMediaType = (headers: RawHeaders): string | undefined =>
  findHeader(headers, 'content-type')?.split(';', 1)[0]?.trim().toLowerCase()

function keepLines(headers: RawHeaders, isKept: (name: string) => boolean): RawHeaders {
  const kept: string[] = []
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] ?? ''
    if (isKept(name.toLowerCase())) kept.push(name, headers[index + 1] ?? '')
  }
  return kept
}

/** What `Connection` names; undefined for no more than it usually says. */
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
