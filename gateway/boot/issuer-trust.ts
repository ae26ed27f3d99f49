import { isDeepStrictEqual } from 'node:util'
import {
  type AudienceClaim,
  type ClaimPointers,
  clientsOf,
  type RevocationTrust,
  type TrustedIssuer,
} from '../authenticate/claims.ts'
import type { Carriers, CredentialRules } from '../authenticate/credential.ts'
import { compileDirectoryRules } from '../authenticate/directory-rules.ts'
import { parsePointer } from '../authenticate/pointer.ts'
import { mapScopes } from '../authenticate/scopes.ts'
import type { Configuration } from '../configuration/configuration.ts'

type IssuerSettings = Configuration['issuers'][number]

/** A proxy that only asks for decisions forwards the request itself, so no credential can be taken out of its lines. */
export const readCredentialRules = (
  { issuers, cors }: Pick<Configuration, 'issuers' | 'cors'>,
  carriers: Carriers,
): Readonly<Record<'public' | 'decision', CredentialRules>> => {
  const cookies = new Set(issuers.flatMap(({ tokens }) => tokens.cookie ?? []))
  const subprotocol = carriers.has('subprotocol')
  // `*` is any origin, and a cookie needs one that is named.
  const origins = new Set(cors?.origins.filter((origin) => origin !== '*'))
  const places = cookies.size > 0 || subprotocol ? { cookies, subprotocol } : undefined
  return { public: { carriers, origins, places }, decision: { carriers, origins, places: undefined } }
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
    ...(tokens.cookie === undefined ? [] : [`cookie:${tokens.cookie}` as const]),
  ])
