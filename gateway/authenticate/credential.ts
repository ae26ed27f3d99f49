import { GatewayError } from '../errors/gateway-error.ts'
import type { RequestHeaders } from '../receive/headers.ts'

/** The place of a JWT in a request. An issuer allows each by itself, since each is exposed to other attacks. */
export type Carrier = 'header' | 'bearer'

/** The header decides the kind of a credential (SPEC section 2.1-2.2); a JWT as Bearer is told by its prefix. */
export type RawCredential = Readonly<
  { kind: 'oauth'; jwt: string; carrier: Carrier } | { kind: 'api-token'; token: string }
>

/** The carriers that at least one issuer allows. Each token's own issuer is asked at every use. */
export type Carriers = ReadonlySet<Carrier>

export function readCredential(
  headers: Pick<RequestHeaders, 'authorization' | 'oauthAccessToken'>,
  carriers: Carriers,
): RawCredential {
  const { authorization, oauthAccessToken } = headers
  // Programs differ in which of two headers they read, so a repeated header is refused.
  if (authorization.length > 1 || oauthAccessToken.length > 1) throw new GatewayError('credential_repeated')
  const [jwt] = oauthAccessToken
  const bearer = readBearer(authorization[0])
  if (jwt !== undefined && bearer !== undefined) throw new GatewayError('ambiguous_credentials')
  if (jwt !== undefined) return { kind: 'oauth', jwt, carrier: 'header' }
  if (bearer === undefined) throw new GatewayError('credential_missing')
  if (carriers.has('bearer') && !bearer.startsWith('oat_')) return { kind: 'oauth', jwt: bearer, carrier: 'bearer' }
  return { kind: 'api-token', token: bearer }
}

/**
 * Returns the value after `Bearer`, in any case (RFC 9110 11.1); undefined for another scheme, such as an ingress'
 * Basic.
 */
function readBearer(value: string | undefined): string | undefined {
  // RFC 9110 5.6.2: these characters would continue the scheme's name. Before a tab or a comma it is still Bearer.
  if (value === undefined || !/^bearer(?![!#$%&'*+.^_`|~\w-])/i.test(value)) return undefined
  return value.slice(6).replace(/^ +/, '')
}
