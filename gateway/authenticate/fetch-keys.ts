import type { JWK } from 'jose'
import type { LoadKeys } from './jwks.ts'

const responseLimitBytes = 1024 * 1024
const responseTimeoutMs = 5_000

/** Loads from `jwksUri`, or from where the issuer's discovery document says (OpenID Connect Discovery 1.0, 4). */
export const createKeyLoader =
  (issuer: string, jwksUri: string | undefined): LoadKeys =>
  async () => {
    const { keys } = await fetchJson(jwksUri ?? (await discover(issuer)))
    if (!Array.isArray(keys)) throw new Error('the key set has no keys')
    return keys.filter((key): key is JWK => typeof key === 'object' && key !== null && typeof key.kty === 'string')
  }

async function discover(issuer: string): Promise<string> {
  const document = await fetchJson(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
  // Discovery 4.3: another name would be another issuer's keys.
  if (document.issuer !== issuer) throw new Error('the discovery document names another issuer')
  if (typeof document.jwks_uri !== 'string') throw new Error('the discovery document has no jwks_uri')
  return document.jwks_uri
}

/** A small JSON object, soon, from this very address: no redirects, since one could point anywhere. */
async function fetchJson(url: string): Promise<Readonly<Record<string, unknown>>> {
  const response = await fetch(url, {
    redirect: 'error',
    headers: { accept: 'application/json' },
    signal: AbortSignal.timeout(responseTimeoutMs),
  })
  if (response.status !== 200 || !response.body) throw new Error(`the issuer answered ${response.status}`)
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of response.body) {
    bytes += chunk.length
    if (bytes > responseLimitBytes) throw new Error('the response is too large')
    chunks.push(chunk)
  }
  const value: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'))
  if (typeof value !== 'object' || value === null) throw new Error('the response is no JSON object')
  return value as Record<string, unknown> // an object has been proven; its members are checked by the caller
}
