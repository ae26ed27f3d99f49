import { type Awaitable, andThen } from '../awaitable/awaitable.ts'
import type { Directory, UserRecord } from '../directory/directory.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { isSameHash, parseApiToken } from './api-token.ts'
import { type Claims, isInForce, type TrustedIssuer } from './claims.ts'
import type { Credential } from './credential.ts'
import { placeholderEmail } from './placeholder-email.ts'
import type { Principal } from './principal.ts'
import type { Verify } from './verify.ts'

export type Authenticate = (credential: Credential) => Awaitable<Principal>

export type Guards = Readonly<{
  directory: Directory
  verify: Verify
  now: () => Date
}>

/** The two guards: each reads its own kind of credential and knows nothing of the other's. */
export const createAuthenticate =
  (guards: Guards): Authenticate =>
  (credential) => {
    switch (credential.kind) {
      case 'oauth':
        return authenticateOauth(credential.jwt, guards)
      case 'api-token':
        return authenticateApiToken(credential.token, guards)
      default:
        return credential satisfies never
    }
  }

function authenticateOauth(jwt: string, { directory, verify, now }: Guards): Awaitable<Principal> {
  return andThen(verify(jwt), ({ issuer: { trust }, claims }) => {
    if (!isInForce(claims, trust, Math.floor(now().getTime() / 1000))) throw new GatewayError('unauthenticated')
    const proof = { kind: 'oauth', expiresAt: new Date(claims.expiresAt * 1000) } as const
    return andThen(directory.findByIdentity(trust.issuer, claims.subject), (known) =>
      known ? { user: known, proof } : createUser(claims, trust, directory).then((user) => ({ user, proof })),
    )
  })
}

/** First login (SPEC section 2.5). */
function createUser(claims: Claims, trust: TrustedIssuer, directory: Directory): Promise<UserRecord> {
  const isLinkable = trust.linkVerifiedEmail && claims.isEmailVerified
  return directory.createByIdentity({
    issuer: trust.issuer,
    subject: claims.subject,
    email: claims.email ?? placeholderEmail(trust.issuer, claims.subject),
    username: claims.preferredUsername,
    firstName: claims.givenName,
    lastName: claims.familyName,
    linkByEmail: isLinkable ? claims.email : undefined,
  })
}

function authenticateApiToken(token: string, { directory, now }: Guards): Awaitable<Principal> {
  const parsed = parseApiToken(token)
  if (!parsed) throw new GatewayError('unauthenticated')
  return andThen(directory.findToken(parsed.id, parsed.hash), (record) => {
    const at = now()
    const isValid =
      record !== undefined &&
      isSameHash(parsed.hash, record.hash) &&
      (record.expiresAt === null || record.expiresAt > at) &&
      record.user.userType === 'client-managed'
    if (!isValid) throw new GatewayError('unauthenticated')
    directory.noteTokenUse(record.id, at)
    const { id, name, abilities, lastUsedAt, expiresAt } = record
    return { user: record.user, proof: { kind: 'api-token', id, name, abilities, lastUsedAt, expiresAt } }
  })
}
