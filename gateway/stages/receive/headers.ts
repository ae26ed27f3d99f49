import { isIPv4, isIPv6 } from 'node:net'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import { ownText } from '../../base/lib/own-text.ts'
import type { Exchange, RawHeaders } from '../../http/exchange.ts'
import {
  type CarriedCredentials,
  type CredentialPlaces,
  isOfOtherScheme,
  noCarriedCredentials,
  takeCredentials,
} from './carried-credentials.ts'
import { usualHeadLimits } from './head-limits.ts'
import { headerRole, type ReadHeader } from './header-role.ts'
import { parseTraceContext } from './trace-context.ts'

/** The request's headers by their role. Values keep the order of their lines. */
export type RequestHeaders = Readonly<{
  host: string
  bytes: number
  authorization: readonly string[]
  oauthAccessToken: readonly string[]
  organizationId: readonly string[]
  cookie: readonly string[]
  carried: CarriedCredentials
  forwarded: ForwardedHeaders
  passing: RawHeaders
  /** The lines that could make a backend see another request. They are forwarded only where an upstream names them. */
  overrides: RawHeaders
  credentials: RawHeaders
}>

/** Forwarding headers, to be trusted only from a trusted proxy. */
export type ForwardedHeaders = Readonly<{ for: readonly string[]; proto: readonly string[]; host: readonly string[] }>

/** Sorts lines by role, and refuses what the framing rules forbid (SPEC section 11). */
export function readHeaders(
  exchange: Pick<Exchange, 'headers' | 'httpVersion'>,
  limitBytes: number = usualHeadLimits.headerBytes,
  places?: CredentialPlaces,
): RequestHeaders {
  if (exchange.httpVersion !== '1.1' && exchange.httpVersion !== '1.0') throw new GatewayError('http_version')
  const values = { ...noValues }
  const passing: string[] = []
  const overrides: string[] = []
  let bytes = 0
  for (let index = 0; index < exchange.headers.length; index += 2) {
    const name = exchange.headers[index] ?? ''
    const value = exchange.headers[index + 1] ?? ''
    bytes += name.length + value.length + 4
    const role = headerRole(name)
    if (role.kind === 'pass') passing.push(name, value)
    else if (role.kind === 'override') overrides.push(name, value)
    else if (role.kind === 'read') collect(values, role.name, value)
    else if (role.kind === 'forbidden') throw new GatewayError('header_misspelt')
  }
  if (bytes > limitBytes) throw new GatewayError('headers_too_large')
  checkFraming(values, exchange.httpVersion)
  // Several lines are one list (RFC 9113 8.2.3), of which some backends would read the first alone.
  if (values.cookie.length > 0) passing.push('cookie', values.cookie.join('; '))
  const trace = values.traceparent.length === 0 ? undefined : parseTraceContext(values.traceparent, values.tracestate)
  if (trace) {
    passing.push('traceparent', trace.traceparent)
    for (const state of trace.tracestate) passing.push('tracestate', state)
  }
  const nominated = readNominated(values.connection)
  const taken = places ? takeCredentials(passing, places) : undefined
  return {
    host: readHost(values.host),
    bytes,
    authorization: values.authorization,
    oauthAccessToken: values['x-oauth-access-token'],
    organizationId: values['x-organization-id'],
    cookie: values.cookie,
    carried: taken?.carried ?? noCarriedCredentials,
    forwarded: {
      for: values['x-forwarded-for'],
      proto: values['x-forwarded-proto'],
      host: values['x-forwarded-host'],
    },
    passing: withoutNominated(taken?.passing ?? passing, nominated),
    overrides: withoutNominated(overrides, nominated),
    credentials: withoutNominated(listCredentials(values, taken?.carried), nominated),
  }
}

const none: string[] = []
Object.freeze(none)
const noValues: Readonly<Record<ReadHeader, string[]>> = {
  host: none,
  authorization: none,
  'x-oauth-access-token': none,
  'x-organization-id': none,
  cookie: none,
  traceparent: none,
  tracestate: none,
  'x-forwarded-for': none,
  'x-forwarded-proto': none,
  'x-forwarded-host': none,
  'transfer-encoding': none,
  'content-length': none,
  expect: none,
  connection: none,
}

function collect(values: Record<ReadHeader, string[]>, name: ReadHeader, value: string): void {
  const before = values[name]
  if (before === none) values[name] = [value]
  else before.push(value)
}

function listCredentials(
  values: Readonly<Record<ReadHeader, readonly string[]>>,
  carried: CarriedCredentials = noCarriedCredentials,
): RawHeaders {
  const lines: string[] = []
  for (const value of values.authorization) lines.push('authorization', value)
  for (const value of values['x-oauth-access-token']) lines.push('x-oauth-access-token', value)
  // Beside a credential of the caller it is not read, and a backend must not take it for verified.
  const isRead =
    values['x-oauth-access-token'].length + carried.subprotocols.length === 0 &&
    values.authorization.every(isOfOtherScheme)
  if (isRead) for (const { name, value } of carried.ambient) lines.push(name, value)
  return lines
}

const contradiction = (): GatewayError => new GatewayError('framing_contradiction')

type Framing = Readonly<Record<'transfer-encoding' | 'content-length' | 'expect', readonly string[]>>

/** RFC 9112 6.1-6.3: one length, stated once. The parser refuses most violations, and these are the rest. */
function checkFraming(values: Framing, httpVersion: string): void {
  const { 'transfer-encoding': encodings, 'content-length': lengths, expect } = values
  if (encodings.length + lengths.length + expect.length === 0) return
  if (encodings.length > 1 || lengths.length > 1) throw contradiction()
  const [encoding] = encodings
  const [length] = lengths
  if (length !== undefined && (!/^\d{1,15}$/.test(length) || encoding !== undefined)) throw contradiction()
  if (encoding !== undefined) {
    if (httpVersion === '1.0' || encoding.trim() === '') throw contradiction()
    if (encoding.toLowerCase() !== 'chunked') throw new GatewayError('transfer_encoding_unknown')
  }
  if (expect.some((value) => value.toLowerCase() !== '100-continue')) throw new GatewayError('expectation_failed')
}

// RFC 9110 4.2.1 and 7.2: a host name, an IPv4 address or a bracketed IPv6 address, with an optional port. Labels are
// those of RFC 1123 2.1, and `_`, which private names have. Userinfo, paths, lists and the other signs of RFC 3986 are
// refused.
const hostPattern = /^(?:([a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?)|\[([0-9a-f:.]{2,45})\])(?::(\d{1,5}))?$/i

/** RFC 1035 3.1, and the dot of the root. */
const longestName = 254

/** URL Standard 3.5: a name that ends so is read as an IPv4 address, in one of several notations. */
const endsInNumber = /(?:^|\.)(?:\d+|0x[0-9a-f]*)\.?$/i

function readHost(lines: readonly string[]): string {
  const [host] = lines
  if (host === undefined || lines.length > 1 || !isHost(host)) throw new GatewayError('host_malformed')
  return lastHost ?? host
}

let lastHost: string | undefined

/** Whether every parser reads the same host and port in it. */
export function isHost(text: string): boolean {
  if (text === lastHost) return true
  const [whole, name, address, port] = hostPattern.exec(text) ?? []
  const isValid = whole !== undefined && Number(port ?? 0) <= 65_535 && isNameOrAddress(name, address)
  if (isValid) lastHost = ownText(text)
  return isValid
}

/**
 * For bodies that the gateway reads itself. It decodes none, and another reader, such as a firewall in front, would
 * decode it and see another text (RFC 9110 8.4 and 15.5.16).
 */
export function requirePlainBody(lines: RawHeaders): void {
  for (let index = 0; index < lines.length; index += 2)
    if (lines[index]?.toLowerCase() === 'content-encoding' && !isIdentity(lines[index + 1] ?? ''))
      throw new GatewayError('encoding_unsupported')
}

const isIdentity = (value: string): boolean => value.trim().toLowerCase() === 'identity'

function isNameOrAddress(name: string | undefined, address: string | undefined): boolean {
  if (name === undefined) return address !== undefined && isIPv6(address)
  return name.length <= longestName && (!endsInNumber.test(name) || isIPv4(name))
}

/** The names in `Connection` (RFC 9110 7.6.1) beyond its usual tokens; undefined without any. */
function readNominated(connection: readonly string[]): ReadonlySet<string> | undefined {
  if (connection.length === 0) return undefined
  const nominated = new Set(connection.flatMap((line) => line.split(',').map((name) => name.trim().toLowerCase())))
  nominated.delete('')
  nominated.delete('close')
  nominated.delete('keep-alive')
  return nominated.size === 0 ? undefined : nominated
}

function withoutNominated(passing: readonly string[], nominated: ReadonlySet<string> | undefined): RawHeaders {
  if (!nominated) return passing
  return passing.filter((_, index) => !nominated.has((passing[index - (index % 2)] ?? '').toLowerCase()))
}
