import { GatewayError } from '../../base/errors/gateway-error.ts'
import { trimBlanks } from '../../base/lib/trim-blanks.ts'
import { type CredentialPlaces, isOfOtherScheme } from '../receive/carried-credentials.ts'
import { type Client, readScheme } from '../receive/client.ts'
import type { RequestHeaders } from '../receive/headers.ts'

/**
 * Carriers that come with the requests of every page: a cookie, and a header that a proxy in front makes from a cookie of
 * its own.
 */
export type AmbientKind = 'cookie' | 'ambient'

/** An ambient one is named alone for pages of the same origin, and with the origin for pages of another. */
export type Carrier = 'header' | 'bearer' | 'subprotocol' | `${AmbientKind}:${string}`

export const ambientCarrier = (kind: AmbientKind, name: string, origin?: string): Carrier =>
  origin === undefined ? `${kind}:${name}` : `${kind}:${name} ${origin}`

/** The header decides the kind of a credential (SPEC section 2.1-2.2); a JWT as Bearer is told by its prefix. */
export type RawCredential = Readonly<
  { kind: 'oauth'; jwt: string; carrier: Carrier } | { kind: 'api-token'; token: string }
>

export type Carriers = ReadonlySet<Carrier>

/** Asked at every use: a token that was verified and cached in one carrier does not count in another. */
export function requireCarrier({ carriers }: Readonly<{ carriers: Carriers }>, carrier: Carrier): void {
  if (!carriers.has(carrier)) throw new GatewayError('carrier_not_allowed')
}

export type CredentialRules = Readonly<{
  /** The carriers that at least one issuer allows. Each token's own issuer is asked at every use. */
  carriers: Carriers
  /** Places of a JWT in other lines. A listener that cannot remove it from cookies and subprotocols has none of them. */
  places: CredentialPlaces | undefined
  /** Whether a page of this origin may read responses, so that even a GET of it acts as the user. */
  mayRead: (origin: string) => boolean
  /** Whether the exchange is the client's own, which shows a handshake, or a proxy's question about it. */
  seesHandshakes: boolean
}>

type CredentialHeaders = Pick<RequestHeaders, 'authorization' | 'oauthAccessToken'>

type CredentialRequest = Readonly<{
  method: string
  isHandshake: boolean
  /** Whether its route takes WebSockets. */
  isWebSocket?: boolean
}>

type CarryingHeaders = CredentialHeaders & Pick<RequestHeaders, 'carried' | 'passing' | 'forwarded'>

type CredentialClient = Pick<Client, 'proto' | 'host'>

export function readCredential(
  headers: CarryingHeaders,
  rules: CredentialRules,
  request: CredentialRequest,
  client?: CredentialClient,
): RawCredential {
  const { subprotocols, cookies, ambient } = headers.carried
  if (ambient.length > 1 && isRepeated(ambient)) throw new GatewayError('credential_repeated')
  const inHeader = readHeaderCredential(headers, rules.carriers)
  if (request.isHandshake && subprotocols.length > 0) {
    if (inHeader) throw new GatewayError('ambiguous_credentials')
    return readSubprotocol(headers.carried)
  }
  if (inHeader) return inHeader
  const isReadable = cookies.length > 0 && (request.isHandshake || asksForEvents(request, headers.passing))
  // Two of these may be of two users, and neither was chosen by the page.
  if (ambient.length + (isReadable ? 1 : 0) > 1) throw new GatewayError('ambiguous_credentials')
  const [line] = ambient
  if (line) return readAmbient(line, headers, rules, request, client)
  if (!isReadable) throw new GatewayError('credential_missing')
  return readCookie(headers, rules.carriers, request, client)
}

const isRepeated = (lines: RequestHeaders['carried']['ambient']): boolean =>
  new Set(lines.map(({ name }) => name)).size < lines.length

export function readHeaderCredential(headers: CredentialHeaders, carriers: Carriers): RawCredential | undefined {
  const { authorization, oauthAccessToken } = headers
  // Programs differ in which of two headers they read, so a repeated header is refused.
  if (authorization.length > 1 || oauthAccessToken.length > 1) throw new GatewayError('credential_repeated')
  const [jwt] = oauthAccessToken
  const bearer = readBearer(authorization[0])
  if (jwt !== undefined && bearer !== undefined) throw new GatewayError('ambiguous_credentials')
  if (jwt !== undefined) return { kind: 'oauth', jwt, carrier: 'header' }
  if (bearer === undefined) return undefined
  if (carriers.has('bearer') && !bearer.startsWith('oat_')) return { kind: 'oauth', jwt: bearer, carrier: 'bearer' }
  return { kind: 'api-token', token: bearer }
}

/** A server chooses one of the subprotocols and echoes it (RFC 6455 4.2.2), so there must be another one. */
function readSubprotocol({ subprotocols, hasOtherSubprotocol }: RequestHeaders['carried']): RawCredential {
  const [jwt = ''] = subprotocols
  if (subprotocols.length > 1) throw new GatewayError('subprotocol_repeated')
  if (!hasOtherSubprotocol) throw new GatewayError('subprotocol_alone')
  return { kind: 'oauth', jwt, carrier: 'subprotocol' }
}

function readCookie(
  headers: CarryingHeaders,
  carriers: Carriers,
  { isHandshake }: CredentialRequest,
  client: CredentialClient | undefined,
): RawCredential {
  const [cookie, ...others] = headers.carried.cookies
  if (cookie === undefined || others.length > 0) throw new GatewayError('credential_cookie_repeated')
  const carrier = requirePage('cookie', cookie.name, headers, carriers, isHandshake, client)
  return { kind: 'oauth', jwt: cookie.value, carrier }
}

/** RFC 9110 9.2.1. Any other method may change something. */
const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * Reads a header of a proxy. No page is asked for its origin where it can neither change nor read anything: the address
 * bar and links send no `Origin`. A question about a handshake may not show that it is one.
 */
function readAmbient(
  { name, value }: RequestHeaders['carried']['ambient'][number],
  headers: CarryingHeaders,
  { carriers, mayRead, seesHandshakes }: CredentialRules,
  { method, isHandshake, isWebSocket = false }: CredentialRequest,
  client: CredentialClient | undefined,
): RawCredential {
  if (!headers.authorization.every(isOfOtherScheme)) throw new GatewayError('malformed')
  const opens = isHandshake || (isWebSocket && !seesHandshakes)
  const isHarmless = safeMethods.has(method) && !opens && !valuesOf(headers.passing, 'origin').some(mayRead)
  const carrier = isHarmless
    ? ambientCarrier('ambient', name)
    : requirePage('ambient', name, headers, carriers, isHandshake, client)
  return { kind: 'oauth', jwt: value, carrier }
}

/**
 * Browsers send a cookie with the requests of every site, so the page must prove its origin. They leave `Origin` out of a
 * GET to the same origin, and say so in a header that no page can set (Fetch Metadata).
 */
function requirePage(
  kind: AmbientKind,
  name: string,
  { passing, forwarded }: Pick<RequestHeaders, 'passing' | 'forwarded'>,
  carriers: Carriers,
  isHandshake: boolean,
  client: CredentialClient | undefined,
): Carrier {
  const named = valuesOf(passing, 'origin')
  const sites = valuesOf(passing, 'sec-fetch-site')
  const [origin] = named
  const isOwn =
    origin === undefined
      ? !isHandshake && sites.length === 1 && sites[0] === 'same-origin'
      : client !== undefined && isOwnOrigin(origin, client, forwarded.proto)
  const carrier = ambientCarrier(kind, name, isOwn ? undefined : (origin ?? ''))
  if (named.length > 1 || !carriers.has(carrier)) throw new GatewayError('origin_forbidden')
  return carrier
}

/**
 * A proxy that is not trusted may tell of another scheme. The scheme is unknown then, and a page that came without TLS
 * must not pass for the same origin.
 */
function isOwnOrigin(
  origin: string,
  { proto, host }: Pick<Client, 'proto' | 'host'>,
  told: readonly string[],
): boolean {
  if (told.some((line) => readScheme(line) !== proto)) return false
  // Browsers write neither capitals nor the usual port (RFC 6454 6.2).
  const usual = proto === 'https' ? ':443' : ':80'
  const name = host.toLowerCase()
  return origin === `${proto}://${name.endsWith(usual) ? name.slice(0, -usual.length) : name}`
}

function asksForEvents({ method }: CredentialRequest, passing: RequestHeaders['passing']): boolean {
  if (method !== 'GET') return false
  const ranges = valuesOf(passing, 'accept').flatMap((line) => line.split(','))
  const parts = ranges.map((range) => range.toLowerCase().split(';').map(trimBlanks))
  const events = parts.filter(([type]) => type === 'text/event-stream')
  return events.length > 0 && events.every(([, ...parameters]) => parameters.every(isWanted))
}

/** The weight 0 means "not acceptable" (RFC 9110 12.4.2). A quoted value could hide a weight behind a comma. */
const isWanted = (parameter: string): boolean =>
  /^q[ \t]*=/.test(parameter) ? /^q=(?:1(?:\.0{0,3})?|0\.(?!0*$)\d{1,3})$/.test(parameter) : !parameter.includes('"')

const valuesOf = (lines: RequestHeaders['passing'], name: string): readonly string[] =>
  lines.filter((_, index) => index % 2 === 1 && lines[index - 1]?.toLowerCase() === name)

/**
 * Returns the value after `Bearer`, in any case (RFC 9110 11.1); undefined for another scheme, such as an ingress'
 * Basic.
 */
function readBearer(value: string | undefined): string | undefined {
  // RFC 9110 5.6.2: these characters would continue the scheme's name. Before a tab or a comma it is still Bearer.
  if (value === undefined || !/^bearer(?![!#$%&'*+.^_`|~\w-])/i.test(value)) return undefined
  return value.slice(6).replace(/^ +/, '')
}
