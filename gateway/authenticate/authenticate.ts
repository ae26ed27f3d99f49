import type { Arrival, Directory, UserRecord } from '../directory/directory.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { type Awaitable, andThen } from '../lib/awaitable.ts'
import { isSameHash, parseApiToken } from './api-token.ts'
import { type Claims, isInForce, isSameAddress, placeholderEmail, type TrustedIssuer } from './claims.ts'
import type { RawCredential } from './credential.ts'
import type { Principal } from './principal.ts'
import type { Verify } from './verify.ts'

export type Authenticate = (credential: RawCredential, arrival: Arrival) => Awaitable<Principal>

export type Guards = Readonly<{
  directory: Directory
  verify: Verify
  now: () => Date
}>

/** The two guards: each reads its own kind of credential and knows nothing of the other's. */
export const createAuthenticate =
  (guards: Guards): Authenticate =>
  (credential, arrival) => {
    switch (credential.kind) {
      case 'oauth':
        return authenticateOauth(credential.jwt, arrival, guards)
      case 'api-token':
        return authenticateApiToken(credential.token, arrival, guards)
      default:
        return credential satisfies never
    }
  }

function authenticateOauth(jwt: string, arrival: Arrival, guards: Guards): Awaitable<Principal> {
  const { directory, verify, now } = guards
  return andThen(verify(jwt), ({ issuer: { trust }, claims }) => {
    if (!isInForce(claims, trust, Math.floor(now().getTime() / 1000))) throw new GatewayError('unauthenticated')
    const proof = { kind: 'oauth', expiresAt: new Date(claims.expiresAt * 1000) } as const
    const toPrincipal = (user: UserRecord): Principal => ({ user, credential: proof })
    return andThen(directory.findByIdentity(trust.issuer, claims.subject), (known) => {
      if (!known) return createUser(claims, trust, arrival, directory).then(toPrincipal)
      const address = known.emailVerified ? undefined : verifiedAddress(claims, trust)
      if (address === undefined || !isSameAddress(address, known.email)) return toPrincipal(known)
      return noteVerified(known, address, directory).then(toPrincipal)
    })
  })
}

/** The address that an issuer has verified, where it is trusted with that. */
const verifiedAddress = (claims: Claims, trust: TrustedIssuer): string | undefined =>
  trust.trustEmailVerified && claims.isEmailVerified ? claims.email : undefined

/** A login goes on without the note: what is not noted reads as unverified, and the next login tries again. */
const noteVerified = (user: UserRecord, address: string, directory: Directory): Promise<UserRecord> =>
  directory.verifyEmail(user.id, address).then(
    (isVerified) => (isVerified ? { ...user, emailVerified: true } : user),
    () => user,
  )

/** First login (SPEC section 2.5). */
function createUser(claims: Claims, trust: TrustedIssuer, arrival: Arrival, directory: Directory): Promise<UserRecord> {
  const isLinkable = trust.linkVerifiedEmail && claims.isEmailVerified
  const identity = {
    issuer: trust.issuer,
    subject: claims.subject,
    email: claims.email ?? placeholderEmail(trust.issuer, claims.subject),
    username: claims.preferredUsername,
    firstName: claims.givenName,
    lastName: claims.familyName,
    linkByEmail: isLinkable ? claims.email : undefined,
    isEmailVerified: verifiedAddress(claims, trust) !== undefined,
  }
  return directory.createByIdentity(identity, arrival)
}

function authenticateApiToken(
  token: string,
  { clientAddress }: Arrival,
  { directory, now }: Guards,
): Awaitable<Principal> {
  const parsed = parseApiToken(token)
  if (!parsed) throw new GatewayError('unauthenticated')
  return andThen(directory.findToken(parsed.id, parsed.hash, clientAddress), (record) => {
    const at = now()
    const isValid =
      record !== undefined &&
      isSameHash(parsed.hash, record.hash) &&
      (record.expiresAt === null || record.expiresAt > at) &&
      record.user.userType === 'client-managed'
    if (!isValid) throw new GatewayError('unauthenticated')
    directory.noteTokenUse(record.id, at)
    const { id, name, abilities, lastUsedAt, expiresAt } = record
    return { user: record.user, credential: { kind: 'api-token', id, name, abilities, lastUsedAt, expiresAt } }
  })
}
