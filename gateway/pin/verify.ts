import { createRemoteJWKSet, errors, type JWTPayload, jwtVerify } from 'jose'

// The entry point `sallyport/verify`, for backends: it must not need more of this package than itself.

/** Who is calling, for whom, and with what right, as the gateway has signed it (SPEC section 4). */
export type Identity = Readonly<{
  user: Readonly<{
    id: number
    type: 'human' | 'client-managed'
    /** Anybody's, unless `emailVerified`: see `verifiedEmail`. */
    email: string
    emailVerified: boolean
  }>
  organization: Readonly<{ id: number; slug: string; role: string }> | null
  /** Slugs: the role in this organization, then those on the platform. */
  roles: readonly string[]
  /** What credential and role allow together; `["*"]` under a bypass scope. */
  abilities: readonly string[]
  credential: Readonly<{ kind: 'oauth' } | { kind: 'api-token'; id: number }>
}>

export type VerifierOptions = Readonly<{
  /** Where the gateway publishes its keys: `http://sallyport:9090/.well-known/jwks.json`. */
  jwksUrl: string | URL
  /** The backend's name in the gateway's configuration; `cluster:<id>` for a data cluster. */
  audience: string | readonly string[]
  /** `identity.issuer` of the gateway. */
  issuer?: string
  algorithm?: 'EdDSA' | 'ES256'
  /** Refuses headers that are not bound to method and target (`bind: true`). Bound ones are always held to them. */
  requiresBinding?: boolean
  /** How far the clocks may be apart, in seconds; at most 60. */
  clockTolerance?: number
}>

/** What a framework has of a request: node:http's, Express', Fastify's, or a Fetch API `Request`. */
export type RequestLike = Readonly<{
  method?: string | undefined
  /** Path and query as they came; Express and Fastify keep them in `originalUrl`. */
  url?: string | undefined
  originalUrl?: string | undefined
  headers: Readonly<Record<string, string | string[] | undefined>> | Headers
}>

/**
 * `missing` and `invalid` are a 401 at most, and in truth a request that came past the gateway; `unavailable` is a 503:
 * the keys could not be fetched.
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

/** Resolves to who is calling, or rejects with an `IdentityError`. */
export type VerifyIdentity = (request: RequestLike) => Promise<Identity>

/** A header lives this long (SPEC section 4), in seconds; one that says more is a mistake, or is not the gateway's. */
const longestLife = 60

/**
 * One for each backend: it keeps the keys, follows their rotation, and asks for an unknown one at most every 30 s.
 *
 * @throws TypeError for options that would let other headers pass than those for this backend, now.
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
    if (header === undefined) throw new IdentityError('missing', 'there is no x-gateway-identity')
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

/** Programs without types pass what an environment variable holds, undefined too: jose then leaves out a check. */
function checkOptions(options: VerifierOptions): void {
  const { audience, issuer = 'sallyport', algorithm = 'EdDSA', clockTolerance = 5, requiresBinding = false } = options
  const unknown = Object.keys(options).find((name) => !optionNames.includes(name))
  if (unknown !== undefined) throw new TypeError(`${unknown} is not an option; known are ${optionNames.join(', ')}`)
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

/** Whether the caller may do something, such as `datasets:read`, in the organization of the request. */
export const may = ({ abilities }: Pick<Identity, 'abilities'>, ability: string): boolean =>
  abilities.includes('*') || abilities.includes(ability)

/** The user's address where it is known to be the user's, else undefined: an unverified one may be anybody's. */
export const verifiedEmail = ({ user }: Pick<Identity, 'user'>): string | undefined =>
  user.emailVerified === true ? user.email : undefined

function readHeader(headers: RequestLike['headers']): string | undefined {
  const value = headers instanceof Headers ? headers.get('x-gateway-identity') : headers['x-gateway-identity']
  // Two lines are no header of the gateway's, which sends one.
  if (Array.isArray(value)) throw new IdentityError('invalid', 'there are several x-gateway-identity')
  return value === null || value === '' ? undefined : value
}

/** jose says by its classes what is wrong with a token; anything else is about fetching keys. */
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

/** A Fetch API request has an absolute URL. */
const toOriginForm = (target: string): string => target.replace(/^https?:\/\/[^/?#]*/i, '')

/** Its signature has just held: the shape is the gateway's. */
const readIdentity = (payload: JWTPayload): Identity => {
  const { user, organization, roles, abilities, credential } = payload as JWTPayload & Identity
  return { user, organization, roles, abilities, credential }
}
