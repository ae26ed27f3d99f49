import { randomUUID } from 'node:crypto'
import { createSecureContext, type SecureContext } from 'node:tls'
import { guarded } from '../../fault/guarded.ts'
import { checkPair, readCertificates } from './certificates.ts'

/** The TLS configuration of an upstream. Only requests with the same object share connections. */
export type UpstreamTls = Readonly<{
  /** The name of the upstream: two upstreams may share an origin. */
  upstream: string
  serverName: string | undefined
  context: SecureContext
}>

export type ClientIdentity = Readonly<{ ca?: string | undefined; cert?: string | undefined; key?: string | undefined }>

export function createUpstreamTls(
  upstream: string,
  { ca, cert, key }: ClientIdentity,
  serverName: string | undefined,
): UpstreamTls {
  if (ca !== undefined) readCertificates('ca', ca)
  if (cert !== undefined) checkPair(cert, key ?? '')
  try {
    const own = { ...(ca !== undefined && { ca }), ...(cert !== undefined && { cert, key }) }
    return { upstream, serverName, context: createSecureContext({ ...own, minVersion: 'TLSv1.2' }) }
  } catch (error) {
    throw new Error(`ca, cert or key cannot serve (${(error as NodeJS.ErrnoException).code ?? 'unknown reason'})`)
  }
}

type Work<Result> = (fetchRouted: typeof fetch) => Promise<Result>

/**
 * Fetches over a connection that trusts other authorities, or that a forward proxy opens by CONNECT. It is closed after
 * the work. undici is loaded for such a route alone.
 */
export async function fetchThrough<Result>(
  { ca, proxy }: Readonly<{ ca?: string | undefined; proxy?: string | undefined }>,
  work: Work<Result>,
): Promise<Result> {
  if (ca === undefined && proxy === undefined) return work(fetch)
  const { Agent, fetch: fetchBy, ProxyAgent } = await import('undici')
  const connect = ca === undefined ? {} : { ca }
  const dispatcher = proxy === undefined ? new Agent({ connect }) : new ProxyAgent({ uri: proxy, requestTls: connect })
  const fetchRouted = ((url: string, init: object) => fetchBy(url, { ...init, dispatcher })) as unknown as typeof fetch
  try {
    return await work(fetchRouted)
  } finally {
    dispatcher.destroy().catch(() => undefined)
  }
}

export type KeptClient = Readonly<{
  ask: (
    path: string,
    headers: Readonly<Record<string, string>>,
    body: string | undefined,
    bounds: AskBounds,
  ) => Promise<Received>
  close: () => Promise<void>
}>

export type AskBounds = Readonly<{ withinMs: number; limitBytes: number }>

type Received = Readonly<{
  status: number
  headers: Readonly<Record<string, string | readonly string[] | undefined>>
  body: Buffer
}>

const connectMs = 1_000

export async function openKeptClient(
  origin: string,
  { readCa, connections }: Readonly<{ readCa?: (() => Promise<string>) | undefined; connections: number }>,
): Promise<KeptClient> {
  const { buildConnector, Pool } = await import('undici')
  const connectPlainly = buildConnector({ timeout: connectMs })
  const connect: typeof connectPlainly = (options, done) => {
    if (!readCa) return connectPlainly(options, done)
    readCa().then(
      guarded('upstream', (ca: string) => buildConnector({ ca, timeout: connectMs })(options, done)),
      guarded('upstream', (error: Error) => done(error, null)),
    )
  }
  const openPool = () => new Pool(origin, { connections, pipelining: 1, connect })
  let pool = openPool()
  const series = `${randomUUID()}.`
  let asked = 0
  return {
    ask: async (path, headers, body, { withinMs, limitBytes }) => {
      const controller = new AbortController()
      const giveUp = (): void => controller.abort(new Error('no whole answer came in time'))
      const timer = setTimeout(guarded('upstream', giveUp), Math.ceil(withinMs))
      try {
        const method = body === undefined ? 'GET' : 'POST'
        const id = `${series}${++asked}`
        const own = { ...headers, 'x-request-id': id }
        const asking = pool
        const sent = { method, path, headers: own, body: body ?? null, signal: controller.signal } as const
        const { statusCode: status, headers: told, body: content } = await asking.request(sent)
        const whole = await readWhole(content, limitBytes)
        const { 'x-request-id': answered } = told
        if (answered !== id && String(answered).startsWith(series)) {
          if (pool === asking) pool = openPool()
          asking.close().catch(() => undefined)
          throw new Error('the answer names another question')
        }
        return { status, headers: told, body: whole }
      } finally {
        clearTimeout(timer)
      }
    },
    close: () => pool.destroy(),
  }
}

async function readWhole(body: AsyncIterable<Uint8Array>, limitBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    if (bytes > limitBytes) return Buffer.concat([...chunks, chunk])
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
