import { isClearFarAway } from '../../../base/lib/loopback.ts'
import { parseShallow } from '../../../base/lib/parse-shallow.ts'
import { askIssuer, type Fetch, type IssuerRoute, inTime, nameAddress } from '../ask-issuer.ts'
import type { LoadKeys } from './refresh.ts'

/** Room for 256 keys of 4 KiB: an RSA key with a chain of certificates (`x5c`, RFC 7517 4.7) has about as many. */
const responseLimitBytes = 1024 * 1024

/** `insecure` allows keys by http on another machine (`issuers[].insecure`). */
export type KeyRoute = IssuerRoute & Readonly<{ insecure: boolean }>

/** Importing a key blocks the event loop for 0.1 ms, and 1 MiB holds 7,000 of them. */
const keyLimit = 256

export function createKeyLoader(issuer: string, jwksUri: string | undefined, route: KeyRoute): LoadKeys {
  let discovered: string | undefined
  const load = ({ reason, signal }: Parameters<LoadKeys>[0], ask: Fetch) =>
    inTime({ signal, address: jwksUri ?? issuer, timeoutMs: route.timeoutMs }, async (bounded) => {
      // An unknown key may be the only sign that the key set has moved, because the old address may still answer.
      const known = jwksUri ?? (reason === 'unknown-key' ? undefined : discovered)
      // Set again only after the keys have arrived: a failure may also mean that they have moved.
      discovered = undefined
      const address = known ?? (await discoverKeys(issuer, route.insecure, ask, bounded))
      const { keys } = await fetchJson(address, ask, bounded)
      if (!Array.isArray(keys)) throw new Error(`the key set at ${nameAddress(address)} has no keys`)
      if (keys.length > keyLimit) throw new Error(`the key set at ${nameAddress(address)} has too many keys`)
      discovered = address
      return keys
    })
  return (request) => route.through((ask) => load(request, ask))
}

/** The keys of an https issuer must not come over clear text, where the network could replace them. */
export const isAsSecure = (address: string, issuer: string): boolean =>
  !/^https:/i.test(issuer) || /^https:/i.test(address)

/** A name from the document may hold anything; a few characters tell which realm or host answers. */
const quote = (name: unknown): string =>
  typeof name === 'string' ? `"${name.slice(0, 200).replace(/[^\x20-\x7e]/g, '?')}"` : 'of no text'

async function discoverKeys(issuer: string, insecure: boolean, ask: Fetch, signal: AbortSignal): Promise<string> {
  const { url, document } = await discover(issuer, ask, signal)
  if (typeof document.jwks_uri !== 'string') throw new Error(`the document at ${url} has no jwks_uri`)
  if (!isAsSecure(document.jwks_uri, issuer)) throw new Error(`the jwks_uri at ${url} is not https`)
  // The document of an issuer on loopback may still lead over a network.
  if (!insecure && isClearFarAway(document.jwks_uri))
    throw new Error(`the jwks_uri at ${url} is http on another machine. Set issuers[].insecure for a trial`)
  return document.jwks_uri
}

type Discovered = Readonly<{ url: string; document: Readonly<Record<string, unknown>> }>

export async function discover(issuer: string, ask: Fetch, signal: AbortSignal): Promise<Discovered> {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  const document = await fetchJson(url, ask, signal)
  // Discovery 4.3: a document that names another issuer would bring that issuer's keys.
  if (document.issuer !== issuer)
    throw new Error(`the document at ${url} names the issuer ${quote(document.issuer)}, and issuers has "${issuer}"`)
  return { url, document }
}

async function fetchJson(url: string, ask: Fetch, signal: AbortSignal): Promise<Readonly<Record<string, unknown>>> {
  const body = await askIssuer({ url, limitBytes: responseLimitBytes }, ask, signal)
  const value = parseDocument(body.toString('utf8'), url)
  if (typeof value !== 'object' || value === null)
    throw new Error(`the response of ${nameAddress(url)} is not a JSON object`)
  return value as Record<string, unknown> // an object, as just checked; the caller checks its members
}

/** The parser's own message quotes what it could not read. */
function parseDocument(text: string, url: string): unknown {
  try {
    return parseShallow(text, mostDepth)
  } catch (error) {
    throw new Error(`the response of ${nameAddress(url)} is not JSON, or is nested too deeply`, { cause: error })
  }
}

/** Key sets and discovery documents are flatter; 1 MiB of brackets costs the garbage collector over 80 ms. */
const mostDepth = 32
