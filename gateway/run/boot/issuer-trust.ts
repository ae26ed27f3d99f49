import { isDeepStrictEqual } from 'node:util'
import type { Configuration } from '../../configuration/configuration.ts'
import {
  type AudienceClaim,
  type ClaimPointers,
  clientsOf,
  type RevocationTrust,
  type TrustedIssuer,
} from '../../stages/authenticate/claims.ts'
import { ambientCarrier, type Carriers, type CredentialRules } from '../../stages/authenticate/credential.ts'
import { compileDirectoryRules } from '../../stages/authenticate/directory-rules.ts'
import { parsePointer } from '../../stages/authenticate/pointer.ts'
import { mapScopes } from '../../stages/authenticate/scopes.ts'

type IssuerSettings = Configuration['issuers'][number]

/**
 * A proxy that only asks for decisions forwards the request itself. No credential can be taken out of its lines, and
 * headers can be removed whole. It may let any page read the responses.
 */
export function readCredentialRules(
  { issuers, cors }: Pick<Configuration, 'issuers' | 'cors'>,
  carriers: Carriers,
): Readonly<Record<'public' | 'decision', CredentialRules>> {
  const cookies = new Set(issuers.flatMap(({ tokens }) => tokens.cookie ?? []))
  const headers = new Set(issuers.flatMap(({ tokens }) => tokens.headers ?? []))
  const subprotocol = carriers.has('subprotocol')
  // Without `credentials` a browser hides a response that came by a cookie of the proxy.
  const readers = new Set(cors?.credentials ? cors.origins : [])
  const places = cookies.size + headers.size > 0 || subprotocol ? { cookies, subprotocol, headers } : undefined
  const wholeLines = headers.size > 0 ? { cookies: new Set<string>(), subprotocol: false, headers } : undefined
  return {
    public: { carriers, places, mayRead: (origin) => readers.has(origin), seesHandshakes: true },
    decision: { carriers, places: wholeLines, mayRead: () => true, seesHandshakes: false },
  }
}

export function readTrust(settings: IssuerSettings, isTold: boolean): TrustedIssuer {
  const { issuer, clockToleranceSeconds, linkVerifiedEmail, claims } = settings
  const { trustEmailVerified = linkVerifiedEmail, requireType } = settings
  return {
    issuer,
    ...readAudiences(settings.audience),
    carriers: listCarriers(settings.tokens),
    clockToleranceSeconds,
    linkVerifiedEmail,
    trustEmailVerified,
    ...(requireType && { requireType }),
    maxTokenBytes: settings.maxTokenBytes,
    ...(settings.acceptIdTokens && { acceptIdTokens: true }),
    separateClients: separatesClients(settings),
    ...(settings.scopes && { findAbilities: mapScopes(settings.scopes) }),
    ...(isTold && { revocation: readRevocation(settings) }),
    ...(settings.directoryRules && { readGranted: compileDirectoryRules(issuer, settings.directoryRules) }),
    ...(!isDeepStrictEqual(claims, standardClaims) && { claims: parseClaims(claims) }),
  }
}

const standardClaims: IssuerSettings['claims'] = {
  subject: '/sub',
  email: '/email',
  emailVerified: '/email_verified',
  names: ['/given_name', '/family_name'],
  username: '/preferred_username',
  sessionId: '/sid',
}

const parseClaims = (claims: IssuerSettings['claims']): ClaimPointers => ({
  subject: parsePointer(claims.subject),
  email: parsePointer(claims.email),
  emailVerified: parsePointer(claims.emailVerified),
  names: claims.names.map(parsePointer),
  username: parsePointer(claims.username),
  sessionId: parsePointer(claims.sessionId),
})

function readRevocation({ logout, maxTokenLifeMs }: IssuerSettings): RevocationTrust {
  const longestLifeSeconds = maxTokenLifeMs / 1000
  if (!logout) return { longestLifeSeconds }
  const { audience, type } = logout
  const audiences = typeof audience === 'string' ? [audience] : audience
  return { longestLifeSeconds, logout: { audiences, types: type === 'JWT' ? ['logout+jwt', 'jwt'] : ['logout+jwt'] } }
}

function readAudiences(audience: IssuerSettings['audience']): Pick<TrustedIssuer, 'audiences' | 'audienceClaim'> {
  if (typeof audience === 'string') return { audiences: [audience] }
  if (isList(audience)) return { audiences: audience }
  const [[audienceClaim, values] = []] = Object.entries(audience) as [AudienceClaim, string | readonly string[]][]
  if (audienceClaim === undefined || values === undefined) throw new Error('an issuer has no audience')
  return { audiences: typeof values === 'string' ? [values] : values, audienceClaim }
}

/** With `aud` and `sub`, a client keeps the account that it has under its subject. Claims know no accounts. */
const separatesClients = ({ separateClients, audience, claims, directoryRules }: IssuerSettings): boolean =>
  separateClients ??
  (directoryRules !== undefined || claims.subject !== '/sub' || (typeof audience !== 'string' && !isList(audience)))

export const listIdentityIssuers = (issuers: Configuration['issuers']): ReadonlySet<string> =>
  new Set(
    issuers.flatMap((settings) =>
      separatesClients(settings) ? [settings.issuer, clientsOf(settings.issuer)] : [settings.issuer],
    ),
  )

const isList = (audience: object): audience is readonly string[] => Array.isArray(audience)

const listCarriers = (tokens: IssuerSettings['tokens']): Carriers =>
  new Set([
    ...(['header', 'bearer', 'subprotocol'] as const).filter((carrier) => tokens[carrier]),
    ...[undefined, ...(tokens.origins ?? [])].flatMap((origin) => [
      ...(tokens.cookie === undefined ? [] : [ambientCarrier('cookie', tokens.cookie, origin)]),
      ...(tokens.headers ?? []).map((name) => ambientCarrier('ambient', name, origin)),
    ]),
  ])
