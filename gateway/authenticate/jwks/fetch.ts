import type { ReadableStreamDefaultReader } from 'node:stream/web'
import { guarded } from '../../fault/guarded.ts'
import type { LoadKeys } from './refresh.ts'

const responseLimitBytes = 1024 * 1024
const responseTimeoutMs = 5_000

/** Reading a key takes 0.1 ms of everybody's time, and 1 MiB holds 7,000 of them. */
const keyLimit = 256

/** Loads from `jwksUri`, or from where the issuer's discovery document says (OpenID Connect Discovery 1.0, 4). */
export function createKeyLoader(issuer: string, jwksUri: string | undefined): LoadKeys {
  let discovered: string | undefined
  return ({ reason, signal }) =>
    inTime(signal, async (bounded) => {
      // An unknown key is all that is seen of a key set that moved while the old address still answers.
      const known = jwksUri ?? (reason === 'unknown-key' ? undefined : discovered)
      // Remembered again only once the keys are here: a failure may mean that they have moved as well.
      discovered = undefined
      const address = known ?? (await discover(issuer, bounded))
      const { keys } = await fetchJson(address, bounded)
      if (!Array.isArray(keys)) throw new Error('the key set has no keys')
      if (keys.length > keyLimit) throw new Error('the key set has too many keys')
      discovered = address
      return keys
    })
}

/** Keys that came in clear text would be as good as the network's word for them, whatever protects the issuer itself. */
export const isAsSecure = (jwksUri: string, issuer: string): boolean =>
  !/^https:/i.test(issuer) || /^https:/i.test(jwksUri)

async function discover(issuer: string, signal: AbortSignal): Promise<string> {
  const document = await fetchJson(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`, signal)
  // Discovery 4.3: another name would be another issuer's keys.
  if (document.issuer !== issuer) throw new Error('the discovery document names another issuer')
  if (typeof document.jwks_uri !== 'string') throw new Error('the discovery document has no jwks_uri')
  if (!isAsSecure(document.jwks_uri, issuer)) throw new Error('the jwks_uri of an https issuer is not https')
  return document.jwks_uri
}

/** Settles in time whatever becomes of the work, which is told to end as well. */
async function inTime<Result>(signal: AbortSignal, work: (bounded: AbortSignal) => Promise<Result>): Promise<Result> {
  const controller = new AbortController()
  const aborted = new Promise<never>((_resolve, reject) => {
    controller.signal.addEventListener('abort', () => reject(controller.signal.reason as Error), { once: true })
  })
  const stop = (): void => controller.abort(new Error('the gateway is stopping'))
  const giveUp = (): void => controller.abort(new Error(`the issuer did not answer in ${responseTimeoutMs} ms`))
  signal.addEventListener('abort', stop, { once: true })
  const timer = setTimeout(giveUp, responseTimeoutMs)
  if (signal.aborted) stop()
  try {
    return await Promise.race([work(controller.signal), aborted])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}

/** A small JSON object, soon, from this very address: no redirects, since one could point anywhere. */
async function fetchJson(url: string, signal: AbortSignal): Promise<Readonly<Record<string, unknown>>> {
  const { username, password } = new URL(url)
  // `fetch` refuses as well, but with a sentence that quotes them.
  if (username !== '' || password !== '') throw new Error('the address holds a user name or password')
  const { status, body } = await fetch(url, { redirect: 'error', headers: { accept: 'application/json' }, signal })
  if (status !== 200 || !body) {
    await body?.cancel()
    throw new Error(`the issuer answered ${status}`)
  }
  const value: unknown = parseShallow(await readText(body.getReader(), signal))
  if (typeof value !== 'object' || value === null) throw new Error('the response is no JSON object')
  return value as Record<string, unknown> // an object has been proven; its members are checked by the caller
}

/** Deeper than any key set or discovery document: 1 MiB of brackets costs the garbage collector 80 ms and more. */
const mostDepth = 32

/** JSON of a sane depth. */
export function parseShallow(text: string): unknown {
  let depth = 0
  let isInString = false
  for (let index = 0; index < text.length; index++) {
    const character = text[index]
    if (character === '"') isInString = !isInString
    else if (isInString) index += character === '\\' ? 1 : 0
    else if (character === '[' || character === '{') depth += 1
    else if (character === ']' || character === '}') depth -= 1
    if (depth > mostDepth) throw new Error('the response is nested too deeply')
  }
  return JSON.parse(text)
}

/** A body to its end; whatever keeps us from that closes the connection. */
async function readText(reader: ReadableStreamDefaultReader<Uint8Array>, signal: AbortSignal): Promise<string> {
  const cancel = (): void => void reader.cancel().catch(() => undefined)
  // Node's `fetch` may have forgotten its signal by now: it is held weakly once the head is there.
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
    // A body that was cancelled ends like one that is complete.
    signal.throwIfAborted()
    return Buffer.concat(chunks).toString('utf8')
  } finally {
    signal.removeEventListener('abort', cancelGuarded)
    cancel()
  }
}
