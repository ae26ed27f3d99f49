export type MintRequest = Readonly<{
  sub: string
  email?: string
  expiresIn?: number
  claims?: Readonly<Record<string, unknown>>
}>

export class MintRequestError extends Error {}

const names = ['sub', 'email', 'expiresIn', 'claims']

export function parseMintRequest(text: string): MintRequest {
  const body = parseObject(text)
  const unknown = Object.keys(body).find((name) => !names.includes(name))
  if (unknown !== undefined) throw new MintRequestError(`unknown field ${JSON.stringify(unknown)}`)
  const { sub, email, expiresIn, claims } = body
  if (typeof sub !== 'string') throw new MintRequestError('"sub" must be a string')
  return {
    sub,
    ...(email === undefined ? {} : { email: requireText(email) }),
    ...(expiresIn === undefined ? {} : { expiresIn: requireSeconds(expiresIn) }),
    ...(claims === undefined ? {} : { claims: requireClaims(claims) }),
  }
}

function parseObject(text: string): Record<string, unknown> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new MintRequestError('the body is not JSON', { cause })
  }
  if (!isObject(value)) throw new MintRequestError('the body must be a JSON object')
  return value
}

function requireText(email: unknown): string {
  if (typeof email !== 'string') throw new MintRequestError('"email" must be a string')
  return email
}

function requireSeconds(expiresIn: unknown): number {
  if (!Number.isSafeInteger(expiresIn)) throw new MintRequestError('"expiresIn" must be a whole number of seconds')
  return Number(expiresIn)
}

function requireClaims(claims: unknown): Record<string, unknown> {
  if (!isObject(claims)) throw new MintRequestError('"claims" must be an object')
  return claims
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
