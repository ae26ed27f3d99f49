// From a credential to a principal: JWTs, opaque tokens of issuers, and API tokens.

import { GatewayError } from '../../base/errors/gateway-error.ts'
import { type Awaitable, andThen } from '../../base/lib/awaitable.ts'
import type { Arrival, Directory, KnownUser, UserRecord } from '../../directory/directory.ts'
import type { Logouts } from '../../directory/logout.ts'
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
import { type Carrier, type RawCredential, requireCarrier } from './credential.ts'
import { type Principal, toTokenPrincipal } from './principal.ts'
import type { VerifiedToken, Verify } from './verify.ts'

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

type RawOauth = Extract<RawCredential, Readonly<{ kind: 'oauth' }>>

function authenticateOauth({ jwt, carrier }: RawOauth, arrival: Arrival, guards: Guards): Awaitable<Principal> {
  const verified = guards.verify(jwt, carrier, arrival.clientAddress)
  return verified instanceof Promise
    ? verified.then((token) => acceptOauth(token, carrier, arrival, guards))
    : acceptOauth(verified, carrier, arrival, guards)
}

function acceptOauth(token: VerifiedToken, carrier: Carrier, arrival: Arrival, guards: Guards): Awaitable<Principal> {
  const { claims, issuer } = token
  requireCarrier(issuer.trust, carrier)
  requireInForce(claims, issuer.trust, Math.floor(guards.now().getTime() / 1000))
  if (!claims.login) return findUser(token, arrival, guards)
  const loggedIn = guards.logouts.requireLoggedIn(claims.login)
  return loggedIn instanceof Promise
    ? loggedIn.then(() => findUser(token, arrival, guards))
    : findUser(token, arrival, guards)
}

function findUser(token: VerifiedToken, arrival: Arrival, { directory }: Guards): Awaitable<Principal> {
  const found = directory.findByIdentity(token.proof)
  return found instanceof Promise
    ? found.then((known) => admitUser(known, token, arrival, directory))
    : admitUser(found, token, arrival, directory)
}

function admitUser(
  known: KnownUser | undefined,
  token: VerifiedToken,
  arrival: Arrival,
  directory: Guards['directory'],
): Awaitable<Principal> {
  const { claims, issuer } = token
  if (!known) return createUser(claims, issuer.trust, arrival, directory).then((user) => toPrincipal(user, token))
  const address = known.emailVerified ? undefined : verifiedAddress(claims, issuer.trust)
  if (address === undefined || known.id === undefined || !isSameAddress(address, known.email))
    return toPrincipal(known, token)
  return noteVerified(known, address, directory).then((user) => toPrincipal(user, token))
}

const toPrincipal = (user: KnownUser, { credential, proof }: VerifiedToken): Principal => ({ user, credential, proof })

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
