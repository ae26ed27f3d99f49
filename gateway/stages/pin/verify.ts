import { createRemoteJWKSet, errors, type JWTPayload, jwtVerify } from 'jose'

// The entry point `sallyport/verify` for backends: it must not import any other part of this package.

export type Identity = Readonly<{
  /** The user's id, or `<issuer>|<subject>` where users come from claims. */
  sub: string
  user: Readonly<{
    id?: number
    /** The backend's own key (uuid or bigint) as text, where `id` is the gateway's number for it. */
    externalId?: string
    type: 'human' | 'client-managed'
    /** Unproven unless `emailVerified`: see `verifiedEmail`. */
    email: string
    emailVerified: boolean
  }>
  organization: Readonly<{ id: number; externalId?: string; slug: string; role: string }> | null
  /** Slugs: the role in this organization, then those on the platform. */
  roles: readonly string[]
  /** Abilities that both credential and role allow; `["*"]` under a bypass scope. */
  abilities: readonly string[]
  credential: Readonly<{ kind: 'oauth' } | { kind: 'api-token'; id: number }>
}>

export type VerifierOptions = Readonly<{
  /** URL of the gateway's keys: `http://sallyport:9090/.well-known/jwks.json`. */
  jwksUrl: string | URL
  /** Name of this backend in the gateway's configuration; `cluster:<id>` for a data cluster. */
  audience: string | readonly string[]
  issuer?: string
  algorithm?: 'EdDSA' | 'ES256'
  /** Refuses headers that are not bound to method and target (`bind: true`). Bound headers are always checked. */
  requiresBinding?: boolean
  /** Allowed difference of the clocks, in seconds; at most 60. */
  clockTolerance?: number
}>

export type RequestLike = Readonly<{
  method?: string | undefined
  /** Path and query as they came; Express and Fastify keep them in `originalUrl`. */
  url?: string | undefined
  originalUrl?: string | undefined
  headers: Readonly<Record<string, string | string[] | undefined>> | Headers
}>

/**
 * With `missing` and `invalid`, the request probably did not come through the gateway: respond with 401. With
 * `unavailable`, the keys could not be fetched: respond with 503.
 */
export class IdentityError extends Error {
  override readonly name = 'IdentityError'
  readonly code: 'missing' | 'invalid' | 'unavailable'
  readonly status: 401 | 503

  constructor(code: 'missing' | 'invalid' | 'unavailable', message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
    this.status = code === 'unavailable' ? 503 : 401
  }
}

export type VerifyIdentity = (request: RequestLike) => Promise<Identity>

/** Lifetime of a header (SPEC section 4), in seconds. A longer one is an error or is not from the gateway. */
const longestLife = 60

/**
 * Creates the verifier of a backend. Share one: it caches the keys, follows their rotation, and fetches an unknown key
 * at most every 30 s.
 * @throws TypeError for options that would accept headers for other backends.
 */
export function createVerifier(options: VerifierOptions): VerifyIdentity {
  checkOptions(options)
  const { issuer = 'sallyport', audience, algorithm = 'EdDSA', clockTolerance = 5 } = options
  const keys = createRemoteJWKSet(new URL(options.jwksUrl), { timeoutDuration: 2_000 })
  const expected = {
    issuer,
    audience: typeof audience === 'string' ? audience : [...audience],
    algorithms: [algorithm],
    clockTolerance,
    maxTokenAge: longestLife,
    requiredClaims: ['exp', 'iat', 'sub', 'aud'],
  }
  return async (request) => {
    const header = readHeader(request.headers)
    if (header === undefined) throw new IdentityError('missing', 'x-gateway-identity is missing')
    const { payload } = await jwtVerify(header, keys, expected).catch((error: unknown) => {
      throw toIdentityError(error)
    })
    const { exp = Number.POSITIVE_INFINITY, iat = 0 } = payload
    if (exp - iat > longestLife) throw new IdentityError('invalid', 'x-gateway-identity lives too long')
    checkBinding(payload, request, options.requiresBinding === true)
    return readIdentity(payload)
  }
}

const optionNames = ['jwksUrl', 'audience', 'issuer', 'algorithm', 'requiresBinding', 'clockTolerance']

/** Untyped programs may pass an unset environment variable, and jose skips a check whose option is undefined. */
function checkOptions(options: VerifierOptions): void {
  const { audience, issuer = 'sallyport', algorithm = 'EdDSA', clockTolerance = 5, requiresBinding = false } = options
  const unknown = Object.keys(options).find((name) => !optionNames.includes(name))
  if (unknown !== undefined) throw new TypeError(`${unknown} is not an option; use one of ${optionNames.join(', ')}`)
  const audiences: readonly unknown[] = Array.isArray(audience) ? audience : [audience]
  if (audiences.length === 0 || !audiences.every(isName))
    throw new TypeError('audience must be the name of this backend in the configuration of the gateway')
  if (!isName(issuer)) throw new TypeError('issuer must be a name')
  if (algorithm !== 'EdDSA' && algorithm !== 'ES256') throw new TypeError('algorithm must be EdDSA or ES256')
  if (typeof clockTolerance !== 'number' || !(clockTolerance >= 0 && clockTolerance <= 60))
    throw new TypeError('clockTolerance must be a number of seconds, 0 to 60')
  if (typeof requiresBinding !== 'boolean') throw new TypeError('requiresBinding must be true or false')
}

const isName = (value: unknown): boolean => typeof value === 'string' && value.trim() !== ''

export const may = ({ abilities }: Pick<Identity, 'abilities'>, ability: string): boolean =>
  abilities.includes('*') || abilities.includes(ability)

/** The user's verified address, else undefined: an unverified address may belong to another person. */
export const verifiedEmail = ({ user }: Pick<Identity, 'user'>): string | undefined =>
  user.emailVerified === true ? user.email : undefined

function readHeader(headers: RequestLike['headers']): string | undefined {
  const value = headers instanceof Headers ? headers.get('x-gateway-identity') : headers['x-gateway-identity']
  if (Array.isArray(value)) throw new IdentityError('invalid', 'x-gateway-identity is repeated')
  return value === null || value === '' ? undefined : value
}

function toIdentityError(error: unknown): IdentityError {
  const isAboutKeys =
    !(error instanceof errors.JOSEError) || error.code === 'ERR_JOSE_GENERIC' || error instanceof errors.JWKSTimeout
  return isAboutKeys
    ? new IdentityError('unavailable', 'the keys of the gateway could not be fetched', { cause: error })
    : new IdentityError('invalid', `x-gateway-identity is not valid (${error.code})`, { cause: error })
}

function checkBinding({ htm, htu }: JWTPayload, { method, url, originalUrl }: RequestLike, isRequired: boolean): void {
  if (htm === undefined && htu === undefined && !isRequired) return
  const target = originalUrl ?? url
  if (htm !== method || target === undefined || htu !== toOriginForm(target))
    throw new IdentityError('invalid', 'x-gateway-identity is bound to another request')
}

const toOriginForm = (target: string): string => target.replace(/^https?:\/\/[^/?#]*/i, '')

const readIdentity = (payload: JWTPayload): Identity => {
  const { sub, user, organization, roles, abilities, credential } = payload as JWTPayload & Identity
  return { sub, user, organization, roles, abilities, credential }
}
