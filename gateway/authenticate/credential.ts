import { GatewayError } from '../errors/gateway-error.ts'
import type { RequestHeaders } from '../receive/headers.ts'

/** What arrived. The header says which kind it is, never the value. */
export type RawCredential = Readonly<{ kind: 'oauth'; jwt: string } | { kind: 'api-token'; token: string }>

/** Finds the one credential of a request (SPEC section 2.1-2.2). */
export function readCredential(headers: Pick<RequestHeaders, 'authorization' | 'oauthAccessToken'>): RawCredential {
  const { authorization, oauthAccessToken } = headers
  // Which of two lines counts differs from program to program: none does here.
  if (authorization.length > 1 || oauthAccessToken.length > 1) throw new GatewayError('credential_repeated')
  const [jwt] = oauthAccessToken
  const bearer = readBearer(authorization[0])
  if (jwt !== undefined && bearer !== undefined) throw new GatewayError('ambiguous_credentials')
  if (jwt !== undefined) return { kind: 'oauth', jwt }
  if (bearer !== undefined) return { kind: 'api-token', token: bearer }
  throw new GatewayError('credential_missing')
}

/** The value after `Bearer`, in any case (RFC 9110 11.1); undefined for another scheme, such as an ingress' Basic. */
function readBearer(value: string | undefined): string | undefined {
  // The name ends where no name goes on (RFC 9110 5.6.2): with a tab or a comma behind it, it is a bad Bearer still.
  if (value === undefined || !/^bearer(?![!#$%&'*+.^_`|~\w-])/i.test(value)) return undefined
  return value.slice(6).replace(/^ +/, '')
}
