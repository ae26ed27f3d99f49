/**
 * Clients for issuers, transmitters and decision points. They use undici's package: Node's own copy is mended with Node
 * alone, and a hostile HTTPS server ends the process of some releases (CVE-2026-87018).
 */
import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import type * as Undici from 'undici'
import { guarded } from '../base/fault/guarded.ts'

// Loaded with the start, since the first unknown key is to be answered within a second. All of undici costs 0.2 s of a
// processor. These parts cost 0.11 s, and the first use of Node's own `fetch` 0.06 s.
const require = createRequire(import.meta.url)
const { fetch: fetchBy }: Pick<typeof Undici, 'fetch'> = require('undici/lib/web/fetch/index.js')
const Agent: typeof Undici.Agent = require('undici/lib/dispatcher/agent.js')
const Pool: typeof Undici.Pool = require('undici/lib/dispatcher/pool.js')
const buildConnector: typeof Undici.buildConnector = require('undici/lib/core/connect.js')
/** A method of each dispatcher, which undici's index file gives them. */
const request: Undici.Dispatcher['request'] = require('undici/lib/api/api-request.js')

/** Few use one. Its CONNECT is another method of the index file, so all of undici is loaded for them. */
async function openProxy(options: Undici.ProxyAgent.Options): Promise<Undici.Dispatcher> {
  const { ProxyAgent } = await import('undici')
  return new ProxyAgent(options)
}

type Work<Result> = (fetchRouted: typeof fetch) => Promise<Result>

/** For issuers without a route of their own. It keeps connections, as a question for each opaque token needs. */
const usualAgent = new Agent()

// Without a dispatcher named, undici takes the process' one, which is of Node's copy where that was loaded first.
const fetchOver = (dispatcher: Undici.Dispatcher) =>
  ((url: string, init: object) => fetchBy(url, { ...init, dispatcher })) as unknown as typeof fetch

/**
 * Fetches over kept connections. A connection that trusts other authorities, or that a forward proxy opens, is closed after
 * the work. The file of the authorities may have changed by the next.
 */
export async function fetchThrough<Result>(
  { ca, proxy }: Readonly<{ ca?: string | undefined; proxy?: string | undefined }>,
  work: Work<Result>,
): Promise<Result> {
  if (ca === undefined && proxy === undefined) return work(fetchOver(usualAgent))
  const connect = ca === undefined ? {} : { ca }
  const dispatcher = proxy === undefined ? new Agent({ connect }) : await openProxy({ uri: proxy, requestTls: connect })
  try {
    return await work(fetchOver(dispatcher))
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

/** A decision point stands near. Undici's default of 10 s would keep one of few places for a host that is down. */
const connectMs = 1_000

export function openKeptClient(
  origin: string,
  { readCa, connections }: Readonly<{ readCa?: (() => Promise<string>) | undefined; connections: number }>,
): KeptClient {
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
        const { statusCode: status, headers: told, body: content } = await request.call(asking, sent)
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
