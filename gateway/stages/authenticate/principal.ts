import { GatewayError } from '../../base/errors/gateway-error.ts'
import { ownText } from '../../base/lib/own-text.ts'
import type { Assertions, KnownUser, TokenAncestor, TokenRecord } from '../../directory/directory.ts'
import type { Login } from '../../directory/logout.ts'
import { requireUsable } from './api-token.ts'
import { type Claims, identityIssuer, type TrustedIssuer } from './claims.ts'
import type { KeySet } from './jwks/key-set.ts'
import type { ChosenKey } from './signature.ts'

/** Without a proof, as for a question about a policy, the principal cannot be judged again. */
export type Principal = Readonly<{ user: KnownUser; credential: PrincipalCredential; proof?: Proof }>

export type OauthCredential = Readonly<{
  kind: 'oauth'
  expiresAt: Date
  abilities?: readonly string[] | undefined
}>

export type PrincipalCredential =
  | OauthCredential
  | Readonly<{
      kind: 'api-token'
      id: number
      name: string | null
      abilities: readonly string[]
      lastUsedAt: Date | null
      expiresAt: Date | null
    }>

export const toCredential = ({ expiresAt, abilities }: Claims): OauthCredential => ({
  kind: 'oauth',
  expiresAt: new Date(expiresAt * 1000),
  abilities,
})

/** The remains of a credential, by which an open exchange is judged again. None is a JWT or a secret of an API token. */
export type Proof = OauthProof | TokenProof

export type OpaqueAnswer = Readonly<{
  askedAtMs: number
  freshMs: number
  askAgain: () => Promise<Readonly<{ proof: OauthProof }>>
}>

export abstract class OauthProof {
  readonly kind = 'oauth'
  readonly issuer: string
  readonly subject: string
  readonly assertions: Assertions | undefined
  readonly login: Login | undefined
  readonly expiresAtMs: number
  /** Epoch milliseconds until which requests are accepted: `exp` and the tolerance for clocks. */
  readonly endsAtMs: number
  readonly abilities: readonly string[] | undefined
  abstract readonly keys: KeySet | undefined
  abstract readonly answer: OpaqueAnswer | undefined

  constructor(trust: TrustedIssuer, claims: Claims) {
    this.issuer = identityIssuer(trust, claims)
    this.subject = claims.subject
    this.assertions = claims.assertions
    this.login = claims.login
    this.expiresAtMs = claims.expiresAt * 1000
    this.endsAtMs = (claims.expiresAt + trust.clockToleranceSeconds) * 1000
    this.abilities = claims.abilities
  }

  /** Whether the keys are those that verified the JWT; otherwise its own key may have been withdrawn. */
  abstract get isVerifiedByCurrentKeys(): boolean

  abstract isKeyListed(): Promise<boolean | undefined>

  judge(user: KnownUser | undefined): Principal {
    if (!user) throw new GatewayError('user_gone')
    const { abilities } = this
    return { user, credential: { kind: 'oauth', expiresAt: new Date(this.endsAtMs), abilities }, proof: this }
  }
}

export class JwtProof extends OauthProof {
  readonly keys: KeySet
  readonly answer = undefined
  readonly #headerText: string
  readonly #key: ChosenKey
  readonly #keysVersion: number | undefined

  constructor(
    trust: TrustedIssuer,
    claims: Claims,
    keys: KeySet,
    signed: Readonly<{ headerText: string; key: ChosenKey; keysVersion: number | undefined }>,
  ) {
    super(trust, claims)
    this.keys = keys
    this.#headerText = shareHeader(signed.headerText)
    this.#key = signed.key
    this.#keysVersion = signed.keysVersion
  }

  get isVerifiedByCurrentKeys(): boolean {
    return this.#keysVersion !== undefined && this.#keysVersion === this.keys.version()
  }

  isKeyListed(): Promise<boolean | undefined> {
    return this.keys.lists(this.#headerText, this.#key)
  }
}

let lastHeader = ''

function shareHeader(headerText: string): string {
  if (headerText !== lastHeader) lastHeader = ownText(headerText)
  return lastHeader
}

/** Holds the opaque token within `askAgain`, since nothing else can be asked about. */
export class OpaqueProof extends OauthProof {
  readonly keys = undefined
  readonly isVerifiedByCurrentKeys = true
  readonly answer: OpaqueAnswer

  constructor(trust: TrustedIssuer, claims: Claims, answer: OpaqueAnswer) {
    super(trust, claims)
    this.answer = answer
  }

  async isKeyListed(): Promise<undefined> {
    return undefined
  }
}

export class TokenProof {
  readonly kind = 'api-token'
  readonly id: number
  readonly ancestors: readonly TokenAncestor[]
  endsAtMs: number | undefined
  readonly #hash: string

  constructor({ id, ancestors, expiresAt, hash }: TokenRecord) {
    this.id = id
    this.ancestors = ancestors.length === 0 ? noAncestors : ancestors
    this.endsAtMs = expiresAt?.getTime()
    this.#hash = hash
  }

  judge(record: TokenRecord | undefined, at: Date): Principal {
    return toTokenPrincipal(requireUsable(record, { id: this.id, hash: this.#hash }, at))
  }
}

const noAncestors: readonly TokenAncestor[] = []

export function toTokenPrincipal(record: TokenRecord): Principal {
  const { id, name, abilities, lastUsedAt, expiresAt, user } = record
  return {
    user,
    credential: { kind: 'api-token', id, name, abilities, lastUsedAt, expiresAt },
    proof: new TokenProof(record),
  }
}
