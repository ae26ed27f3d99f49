import type { ReadableStreamDefaultReader } from 'node:stream/web'
import { guarded } from '../../fault/guarded.ts'
import { parseShallow } from '../../lib/parse-shallow.ts'
import type { LoadKeys } from './refresh.ts'

const responseLimitBytes = 1024 * 1024

export type Fetch = (
  url: string,
  init: Readonly<{ redirect: 'error'; headers: Readonly<Record<string, string>>; signal: AbortSignal }>,
) => Promise<Pick<Response, 'status' | 'body'>>

export type IssuerRoute = Readonly<{
  through: <Result>(work: (fetch: Fetch) => Promise<Result>) => Promise<Result>
  timeoutMs: number
}>

const usualRoute: IssuerRoute = { through: (work) => work(fetch), timeoutMs: 5_000 }

/** Importing a key blocks the event loop for 0.1 ms, and 1 MiB holds 7,000 of them. */
const keyLimit = 256

export function createKeyLoader(issuer: string, jwksUri: string | undefined, route = usualRoute): LoadKeys {
  let discovered: string | undefined
  const load = ({ reason, signal }: Parameters<LoadKeys>[0], ask: Fetch) =>
    inTime({ signal, address: jwksUri ?? issuer, timeoutMs: route.timeoutMs }, async (bounded) => {
      // An unknown key may be the only sign that the key set has moved, because the old address may still answer.
      const known = jwksUri ?? (reason === 'unknown-key' ? undefined : discovered)
      // Set again only after the keys have arrived: a failure may also mean that they have moved.
      discovered = undefined
      const address = known ?? (await discover(issuer, ask, bounded))
      const { keys } = await fetchJson(address, ask, bounded)
      if (!Array.isArray(keys)) throw new Error(`the key set at ${nameAddress(address)} has no keys`)
      if (keys.length > keyLimit) throw new Error(`the key set at ${nameAddress(address)} has too many keys`)
      discovered = address
      return keys
    })
  return (request) => route.through((ask) => load(request, ask))
}

/** The keys of an https issuer must not come over clear text, where the network could replace them. */
export const isAsSecure = (jwksUri: string, issuer: string): boolean =>
  !/^https:/i.test(issuer) || /^https:/i.test(jwksUri)

/** A name from the document may hold anything; a few characters tell which realm or host answers. */
const quote = (name: unknown): string =>
  typeof name === 'string' ? `"${name.slice(0, 200).replace(/[^\x20-\x7e]/g, '?')}"` : 'of no text'

async function discover(issuer: string, ask: Fetch, signal: AbortSignal): Promise<string> {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  const document = await fetchJson(url, ask, signal)
  // Discovery 4.3: a document that names another issuer would bring that issuer's keys.
  if (document.issuer !== issuer)
    throw new Error(`the document at ${url} names the issuer ${quote(document.issuer)}, and issuers has "${issuer}"`)
  if (typeof document.jwks_uri !== 'string') throw new Error(`the document at ${url} has no jwks_uri`)
  if (!isAsSecure(document.jwks_uri, issuer)) throw new Error(`the jwks_uri at ${url} is not https`)
  return document.jwks_uri
}

async function inTime<Result>(
  { signal, address, timeoutMs }: Readonly<{ signal: AbortSignal; address: string; timeoutMs: number }>,
  work: (bounded: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const controller = new AbortController()
  const aborted = new Promise<never>((_resolve, reject) => {
    controller.signal.addEventListener('abort', () => reject(controller.signal.reason as Error), { once: true })
  })
  const stop = (): void => controller.abort(new Error('the gateway is stopping'))
  const giveUp = (): void => controller.abort(new Error(`${nameAddress(address)} did not answer in ${timeoutMs} ms`))
  signal.addEventListener('abort', stop, { once: true })
  const timer = setTimeout(giveUp, timeoutMs)
  if (signal.aborted) stop()
  try {
    return await Promise.race([work(controller.signal), aborted])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}

/** Fetches a small JSON object from this very address. A redirect is refused, since it could point anywhere. */
async function fetchJson(url: string, ask: Fetch, signal: AbortSignal): Promise<Readonly<Record<string, unknown>>> {
  const { username, password } = new URL(url)
  // `fetch` refuses them too, but its message quotes them.
  if (username !== '' || password !== '') throw new Error('the address holds a user name or password')
  const { status, body } = await ask(url, {
    redirect: 'error',
    headers: { accept: 'application/json' },
    signal,
  }).catch((error: unknown) => {
    throw new Error(`${nameAddress(url)} could not be asked: ${nameFailure(error)}`, { cause: error })
  })
  if (status !== 200 || !body) {
    await body?.cancel()
    throw new Error(`${nameAddress(url)} answered ${status}`)
  }
  const value = parseDocument(await readText(body.getReader(), signal), url)
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

/** Without query and user, where secrets may stand. */
function nameAddress(address: string): string {
  const url = URL.canParse(address) ? new URL(address) : undefined
  return url ? `${url.origin}${url.pathname}` : 'the address of the keys'
}

/** `fetch` says `fetch failed`, and has the reason in its cause. */
function nameFailure(error: unknown): string {
  const { cause, name } = error as Error
  return cause instanceof Error ? ((cause as NodeJS.ErrnoException).code ?? cause.message) : name
}

/** Key sets and discovery documents are flatter; 1 MiB of brackets costs the garbage collector over 80 ms. */
const mostDepth = 32

async function readText(reader: ReadableStreamDefaultReader<Uint8Array>, signal: AbortSignal): Promise<string> {
  const cancel = (): void => void reader.cancel().catch(() => undefined)
  // Node's `fetch` may drop its signal by now, because it holds the signal weakly once the head has arrived.
  const cancelGuarded = guarded<Event>('issuer', cancel)
  signal.addEventListener('abort', cancelGuarded, { once: true })
  const chunks: Uint8Array[] = []
  let bytes = 0
  try {
    for (let part = await reader.read(); part.value; part = await reader.read()) {
      bytes += part.value.length
      if (bytes > responseLimitBytes) throw new Error('the response is too large')
      chunks.push(part.value)
    }
    // A cancelled body ends like a complete one.
    signal.throwIfAborted()
    return Buffer.concat(chunks).toString('utf8')
  } finally {
    signal.removeEventListener('abort', cancelGuarded)
    cancel()
  }
}
