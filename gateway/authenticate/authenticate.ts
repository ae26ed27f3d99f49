import type { Arrival, Directory, KnownUser, UserRecord } from '../directory/directory.ts'
import type { Logouts } from '../directory/logout.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { type Awaitable, andThen } from '../lib/awaitable.ts'
import { nameTokenFault, parseApiToken, requireUsable } from './api-token.ts'
import {
  type Claims,
  identityIssuer,
  isSameAddress,
  placeholderEmail,
  requireInForce,
  type TrustedIssuer,
  verifiedAddress,
} from './claims.ts'
import { type RawCredential, requireCarrier } from './credential.ts'
import { type Principal, toTokenPrincipal } from './principal.ts'
import type { Verify } from './verify.ts'

export type Authenticate = (credential: RawCredential, arrival: Arrival) => Awaitable<Principal>

export type Guards = Readonly<{
  directory: Directory<KnownUser>
  verify: Verify
  logouts: Pick<Logouts, 'requireLoggedIn'>
  now: () => Date
}>

export const createAuthenticate =
  (guards: Guards): Authenticate =>
  (credential, arrival) => {
    switch (credential.kind) {
      case 'oauth':
        return authenticateOauth(credential, arrival, guards)
      case 'api-token':
        return authenticateApiToken(credential.token, arrival, guards)
      default:
        return credential satisfies never
    }
  }

type OauthCredential = Extract<RawCredential, Readonly<{ kind: 'oauth' }>>

function authenticateOauth({ jwt, carrier }: OauthCredential, arrival: Arrival, guards: Guards): Awaitable<Principal> {
  const { directory, verify, logouts, now } = guards
  return andThen(verify(jwt, carrier, arrival.clientAddress), ({ issuer: { trust }, claims, proof }) => {
    requireCarrier(trust, carrier)
    requireInForce(claims, trust, Math.floor(now().getTime() / 1000))
    const { abilities } = claims
    const credential = { kind: 'oauth', expiresAt: new Date(claims.expiresAt * 1000), abilities } as const
    const toPrincipal = (user: KnownUser): Principal => ({ user, credential, proof })
    const findUser = (): Awaitable<Principal> =>
      andThen(directory.findByIdentity(proof), (known) => {
        if (!known) return createUser(claims, trust, arrival, directory).then(toPrincipal)
        const address = known.emailVerified ? undefined : verifiedAddress(claims, trust)
        if (address === undefined || known.id === undefined || !isSameAddress(address, known.email))
          return toPrincipal(known)
        return noteVerified(known, address, directory).then(toPrincipal)
      })
    return claims.login ? andThen(logouts.requireLoggedIn(claims.login), findUser) : findUser()
  })
}

/** If the note fails, the login goes on: the address counts as unverified, and the next login tries again. */
const noteVerified = (user: UserRecord, address: string, directory: Guards['directory']): Promise<UserRecord> =>
  directory.verifyEmail(user.id, address).then(
    (isVerified) => (isVerified ? { ...user, emailVerified: true } : user),
    () => user,
  )

function createUser(
  claims: Claims,
  trust: TrustedIssuer,
  arrival: Arrival,
  directory: Guards['directory'],
): Promise<UserRecord> {
  const isLinkable = trust.linkVerifiedEmail && claims.isEmailVerified && !claims.isClientsOwn
  const issuer = identityIssuer(trust, claims)
  const identity = {
    issuer,
    subject: claims.subject,
    email: claims.email ?? placeholderEmail(issuer, claims.subject),
    username: claims.preferredUsername,
    firstName: claims.givenName,
    lastName: claims.familyName,
    linkByEmail: isLinkable ? claims.email : undefined,
    isEmailVerified: verifiedAddress(claims, trust) !== undefined,
    assertions: claims.assertions,
  }
  return directory.createByIdentity(identity, arrival)
}

function authenticateApiToken(
  token: string,
  { clientAddress }: Arrival,
  { directory, now }: Guards,
): Awaitable<Principal> {
  const parsed = parseApiToken(token)
  if (!parsed) throw new GatewayError(nameTokenFault(token))
  return andThen(directory.findToken(parsed.id, parsed.hash, clientAddress), (record) => {
    const at = now()
    const usable = requireUsable(record, parsed, at)
    directory.noteTokenUse(usable.id, at)
    return toTokenPrincipal(usable)
  })
}
