import { GatewayError } from '../errors/gateway-error.ts'
import type { CredentialPlaces } from '../receive/carried-credentials.ts'
import type { RequestHeaders } from '../receive/headers.ts'

export type Carrier = 'header' | 'bearer' | 'subprotocol' | `cookie:${string}`

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
  /** Places of a JWT in cookies and subprotocols; undefined on a listener that cannot remove it from these lines. */
  places: CredentialPlaces | undefined
  origins: ReadonlySet<string>
}>

type CredentialHeaders = Pick<RequestHeaders, 'authorization' | 'oauthAccessToken'>

type CredentialRequest = Readonly<{ method: string; isHandshake: boolean }>

export function readCredential(
  headers: CredentialHeaders & Pick<RequestHeaders, 'carried' | 'passing'>,
  rules: CredentialRules,
  request: CredentialRequest,
): RawCredential {
  const inHeader = readHeaderCredential(headers, rules.carriers)
  const { subprotocols, cookies } = headers.carried
  if (request.isHandshake && subprotocols.length > 0) {
    if (inHeader) throw new GatewayError('ambiguous_credentials')
    return readSubprotocol(headers.carried)
  }
  if (inHeader) return inHeader
  const isReadable = cookies.length > 0 && (request.isHandshake || asksForEvents(request, headers.passing))
  if (!isReadable) throw new GatewayError('credential_missing')
  return readCookie(headers, rules.origins, request)
}

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

/**
 * Browsers send a cookie with the requests of every site, so the page must prove its origin. They leave `Origin` out of a
 * GET to the same origin, and say so in a header that no page can set (Fetch Metadata).
 */
function readCookie(
  { carried, passing }: Pick<RequestHeaders, 'carried' | 'passing'>,
  origins: ReadonlySet<string>,
  { isHandshake }: CredentialRequest,
): RawCredential {
  const [cookie] = carried.cookies
  if (cookie === undefined || carried.cookies.length > 1) throw new GatewayError('credential_cookie_repeated')
  const named = valuesOf(passing, 'origin')
  const sites = valuesOf(passing, 'sec-fetch-site')
  const isOwn = named.length === 0 && !isHandshake && sites.length === 1 && sites[0] === 'same-origin'
  const isListed = named.length === 1 && origins.has(named[0] ?? '')
  if (!isOwn && !isListed) throw new GatewayError('origin_forbidden')
  return { kind: 'oauth', jwt: cookie.value, carrier: `cookie:${cookie.name}` }
}

const asksForEvents = ({ method }: CredentialRequest, passing: RequestHeaders['passing']): boolean =>
  method === 'GET' &&
  valuesOf(passing, 'accept').some((line) =>
    line.split(',').some((range) => range.split(';', 1)[0]?.trim().toLowerCase() === 'text/event-stream'),
  )

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
