import type { ReadableStreamDefaultReader } from 'node:stream/web'
import { guarded } from '../../base/fault/guarded.ts'

export type Fetch = (
  url: string,
  init: Readonly<{
    redirect: 'error'
    headers: Readonly<Record<string, string>>
    signal: AbortSignal
    method?: 'POST'
    body?: string
  }>,
) => Promise<Pick<Response, 'status' | 'body'>>

export type IssuerRoute = Readonly<{
  through: <Result>(work: (fetch: Fetch) => Promise<Result>) => Promise<Result>
  timeoutMs: number
}>

export type IssuerRequest = Readonly<{
  url: string
  limitBytes: number
  headers?: Readonly<Record<string, string>>
  body?: string
}>

/** The issuer answered, but not as it should; any other failure means that it did not answer. */
export class UnusableAnswer extends Error {}

type Deadline = Readonly<{ signal: AbortSignal; address: string; timeoutMs: number }>

export async function inTime<Result>(
  { signal, address, timeoutMs }: Deadline,
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

type Told = Pick<IssuerRequest, 'url' | 'headers' | 'body'>

async function send({ url, headers, body }: Told, ask: Fetch, signal: AbortSignal): ReturnType<Fetch> {
  const { username, password } = new URL(url)
  // `fetch` refuses them too, but its message quotes them.
  if (username !== '' || password !== '') throw new Error('the address holds a user name or password')
  return ask(url, {
    redirect: 'error',
    headers: { accept: 'application/json', ...headers },
    signal,
    ...(body !== undefined && { method: 'POST', body }),
  }).catch((error: unknown) => {
    throw new Error(`${nameAddress(url)} could not be asked: ${nameFailure(error)}`, { cause: error })
  })
}

/** Resolves to the body of a 200 from this very address. A redirect is refused, since it could point anywhere. */
export async function askIssuer(request: IssuerRequest, ask: Fetch, signal: AbortSignal): Promise<Buffer> {
  const { url, limitBytes } = request
  const { status, body } = await send(request, ask, signal)
  if (status !== 200 || !body) {
    await body?.cancel()
    throw new UnusableAnswer(`${nameAddress(url)} answered ${status}`)
  }
  return readBody(body.getReader(), limitBytes, signal)
}

export async function tellIssuer(told: Told, ask: Fetch, signal: AbortSignal): Promise<void> {
  const { status, body } = await send(told, ask, signal)
  await body?.cancel()
  if (status < 200 || status > 299) throw new UnusableAnswer(`${nameAddress(told.url)} answered ${status}`)
}

/** Without query and user, where secrets may stand. */
export function nameAddress(address: string): string {
  const url = URL.canParse(address) ? new URL(address) : undefined
  return url ? `${url.origin}${url.pathname}` : 'the address of the keys'
}

/** `fetch` says `fetch failed`, and has the reason in its cause. */
function nameFailure(error: unknown): string {
  const { cause, name } = error as Error
  return cause instanceof Error ? ((cause as NodeJS.ErrnoException).code ?? cause.message) : name
}

async function readBody(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  limitBytes: number,
  signal: AbortSignal,
): Promise<Buffer> {
  const cancel = (): void => void reader.cancel().catch(() => undefined)
  // Node's `fetch` may drop its signal by now, because it holds the signal weakly once the head has arrived.
  const cancelGuarded = guarded<Event>('issuer', cancel)
  signal.addEventListener('abort', cancelGuarded, { once: true })
  const chunks: Uint8Array[] = []
  let bytes = 0
  try {
    for (let part = await reader.read(); part.value; part = await reader.read()) {
      bytes += part.value.length
      if (bytes > limitBytes) throw new UnusableAnswer('the response is too large')
      chunks.push(part.value)
    }
    // A cancelled body ends like a complete one.
    signal.throwIfAborted()
    return Buffer.concat(chunks)
  } finally {
    signal.removeEventListener('abort', cancelGuarded)
    cancel()
  }
}
