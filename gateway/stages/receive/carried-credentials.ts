import { trimBlanks } from '../../base/lib/trim-blanks.ts'
import type { RawHeaders } from '../../http/exchange.ts'

export type CredentialPlaces = Readonly<{
  cookies: ReadonlySet<string>
  subprotocol: boolean
  /** Names in lower case, with no other signs than letters, digits and hyphens. */
  headers: ReadonlySet<string>
}>

type Named = Readonly<{ name: string; value: string }>

export type CarriedCredentials = Readonly<{
  cookies: readonly Named[]
  subprotocols: readonly string[]
  hasOtherSubprotocol: boolean
  /** The lines of headers that a proxy in front sets. */
  ambient: readonly Named[]
}>

export const noCarriedCredentials: CarriedCredentials = {
  cookies: [],
  subprotocols: [],
  hasOtherSubprotocol: false,
  ambient: [],
}

/** A scheme with its text, such as an ingress' Basic. Any other value is a credential of the caller that went wrong. */
export const isOfOtherScheme = (authorization: string): boolean =>
  /^(?!bearer )[!#$%&'*+.^_`|~\w-]+ +[^ ]/i.test(authorization)

const subprotocolPrefix = 'bearer.jwt.'

/** Takes each credential out of the lines, so that no upstream sees it. Lines without one stay as they are. */
export function takeCredentials(
  lines: RawHeaders,
  places: CredentialPlaces,
): Readonly<{ passing: string[]; carried: CarriedCredentials }> {
  const passing: string[] = []
  const cookies: { name: string; value: string }[] = []
  const subprotocols: string[] = []
  const ambient: Named[] = []
  let hasOtherSubprotocol = false
  const keepCookie = (pair: string): boolean => {
    const [written = ''] = pair.split('=', 1)
    const name = trimBlanks(written)
    if (!places.cookies.has(name)) return true
    cookies.push({ name, value: trimBlanks(pair.slice(written.length + 1)) })
    return false
  }
  const keepSubprotocol = (entry: string): boolean => {
    const isCredential = places.subprotocol && entry.trim().toLowerCase().startsWith(subprotocolPrefix)
    if (isCredential) subprotocols.push(entry.trim().slice(subprotocolPrefix.length))
    else hasOtherSubprotocol ||= entry.trim() !== ''
    return !isCredential
  }
  for (let index = 0; index < lines.length; index += 2) {
    const name = lines[index] ?? ''
    const value = lines[index + 1] ?? ''
    const exact = name.toLowerCase()
    if (places.headers.has(exact)) ambient.push({ name: exact, value })
    // A backend may read an alias as the header (CGI), so it is dropped, and never read.
    if (places.headers.size > 0 && places.headers.has(exact.replace(/[^a-z0-9]/g, '-'))) continue
    const kept = keepParts(exact, value, keepCookie, keepSubprotocol)
    if (kept !== undefined) passing.push(name, kept)
  }
  return { passing, carried: { cookies, subprotocols, hasOtherSubprotocol, ambient } }
}

type Keep = (part: string) => boolean

function keepParts(name: string, value: string, keepCookie: Keep, keepSubprotocol: Keep): string | undefined {
  if (name === 'cookie') return keepAmong(value, ';', keepCookie)
  return name === 'sec-websocket-protocol' ? keepAmong(value, ',', keepSubprotocol) : value
}

function keepAmong(value: string, separator: string, keep: Keep): string | undefined {
  const parts = value.split(separator)
  const kept = parts.filter(keep)
  if (kept.length === parts.length) return value
  const left = trimBlanks(kept.join(separator))
  return left === '' ? undefined : left
}
