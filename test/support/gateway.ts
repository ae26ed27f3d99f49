import { once } from 'node:events'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { type Configuration, loadConfiguration } from '../../gateway/configuration/configuration.ts'
import { type Gateway, startGateway } from '../../gateway/run/boot/gateway.ts'
import { generatePem } from '../../gateway/tools/cli/keys.ts'
import { startFairClock } from './fair-clock.ts'
import { type Owner, withOwner } from './owner.ts'
import { column } from './press/column.ts'
import { pressConfiguration } from './press/press.ts'
import { frontFor } from './press/tls-ends.ts'
import type { TestWorld } from './world.ts'

type Settings = Readonly<Record<string, unknown>>

/** A gateway in this very process, as a configuration file describes it. */
export type TestGateway = Readonly<{
  public: string
  decision: string
  admin: string
  /** Empty unless the settings have the listener. */
  signals: string
  drain: Gateway['drain']
  /** The key file of its own that it signs with, unless the settings name another. */
  keyFile: string
}>

const policies = fileURLToPath(new URL('../../policies', import.meta.url))

export const anyPort = { host: '127.0.0.1', port: 0 }

/** Nothing listens on port 1. */
const nowhere = 'http://127.0.0.1:1'

/**
 * Starts a gateway from a written configuration and drains it with the test. Users and their tokens are those of the
 * world; without one, only public routes answer.
 */
export async function startTestGateway(t: Test, options: TestGatewayOptions): Promise<TestGateway> {
  const file = writeConfiguration(t, options)
  if (column === 'workers') return startGroupOf(t, file)
  const configuration = loadConfiguration(file, {})
  const gateway = await startGateway(options.settings?.cache ? configuration : withSmallCaches(configuration))
  t.teardown(() => gateway.drain({ delayMs: 0, timeoutMs: 0 }))
  const keyFile = join(dirname(file), 'identity.pem')
  const { public: clients, decision, admin, signals, drain } = gateway
  const front = await frontFor(t, toUrl(clients), options.settings?.listeners)
  const urls = { public: front, decision: toUrl(decision), admin: toUrl(admin) }
  return { ...urls, signals: signals ? toUrl(signals) : '', drain, keyFile }
}

/** Under a column of the drill alone: workers are processes. */
async function startGroupOf(t: Test, file: string): Promise<TestGateway> {
  const { serveBuild } = await import('./replicas.ts')
  const { public: clients, decision, admin, signals, stop } = await serveBuild(t, file, {})
  const drain = async (): Promise<void> => void (await stop('SIGTERM'))
  const keyFile = join(dirname(file), 'identity.pem')
  return { public: clients, decision, admin, signals, drain, keyFile }
}

/** Room for ten thousand entries takes 13 ms of a start, and a test's gateway needs little of it. */
export const withSmallCaches = (configuration: Configuration): Configuration => ({
  ...configuration,
  cache: { ...configuration.cache, maxEntries: 1_000 },
})

/** Writes a configuration, its key and its routes into a folder that goes with the owner; gives the file's path. */
export function writeConfiguration(
  owner: Owner,
  { world, settings = {}, upstreams = {}, routes, rateLimits = {} }: TestGatewayOptions,
): string {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  owner.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const file = join(directory, 'gateway.yaml')
  writeFileSync(join(directory, 'identity.pem'), generatePem('EdDSA'), { mode: 0o600 })
  if (routes) {
    mkdirSync(join(directory, 'policies'))
    copyFileSync(join(policies, 'roles.yaml'), join(directory, 'policies', 'roles.yaml'))
    writeFileSync(join(directory, 'policies', 'routes.yaml'), JSON.stringify({ rateLimits, routes }))
  }
  const names = new Set(['platform', 'agents', 'files', 'graphql', 'data', ...Object.keys(upstreams)])
  writeFileSync(
    file,
    JSON.stringify(
      pressConfiguration({
        listeners: { public: anyPort, decision: anyPort, admin: anyPort },
        database: { url: world?.databaseUrl ?? 'postgres://nobody@127.0.0.1:1/nowhere', ...world?.patience },
        issuers: [{ issuer: world?.oidc.issuer ?? nowhere, audience: 'sallyport-demo', clockToleranceSeconds: 0 }],
        identity: { keys: ['file:identity.pem'] },
        policies: { directory: routes ? 'policies' : policies },
        log: { level: 'silent' },
        audit: { sink: 'off' },
        cluster: { networks: { allow: ['127.0.0.0/8'] } },
        ...settings,
        upstreams: Object.fromEntries([...names].map((name) => [name, { url: nowhere, ...upstreams[name] }])),
      }),
    ),
  )
  return file
}

export type TestGatewayOptions = Readonly<{
  world?: Pick<TestWorld, 'databaseUrl' | 'oidc'> & Partial<Pick<TestWorld, 'patience'>>
  /** Whole top-level sections of the configuration. */
  settings?: Settings
  /** Settings of upstreams, by the names that the shipped policies use. */
  upstreams?: Readonly<Record<string, Settings>>
  /** Routes in place of the shipped ones; the roles stay. */
  routes?: readonly Settings[]
  /** With `routes`: what they name in `rateLimit`. */
  rateLimits?: Readonly<Record<string, Settings>>
}>

const toUrl = ({ host, port }: Readonly<{ host: string; port: number }>): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`

/** Every path of the platform's upstream, public. */
export const openRoute: Settings = {
  id: 'open',
  match: { path: '/*' },
  surface: 'platform',
  access: 'public',
  upstream: 'platform',
}

/** An upstream that says exactly the bytes it is told to. */
export type RawUpstream = Readonly<{
  url: string
  /** The bytes of each connection so far, in the order of the connections. */
  received: () => readonly string[]
  sockets: () => readonly Socket[]
}>

/** Calls back with every chunk, and with all that its connection sent so far. */
export type TakeBytes = (socket: Socket, soFar: string, connection: number) => void

/** Listens on a free port and cuts every connection when the test ends. */
export async function startRawUpstream(t: Test, take: TakeBytes): Promise<RawUpstream> {
  const received: string[] = []
  const sockets: Socket[] = []
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    const connection = sockets.push(socket) - 1
    received.push('')
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      received[connection] += chunk.toString('latin1')
      take(socket, received[connection] ?? '', connection)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return { url: `http://127.0.0.1:${port}`, received: () => received, sockets: () => sockets }
}

/** The number of requests in these bytes, by their heads. */
export const countHeads = (bytes: string): number => bytes.split('\r\n\r\n').length - 1

/** A client's socket, for what no HTTP client would do. */
export type RawClient = Readonly<{
  socket: Socket
  send: (bytes: string | Buffer) => void
  /** Everything that came back so far. */
  text: () => string
  /** Resolves with all that came once it matches; rejects when the other side closes before, or after a while. */
  until: (pattern: RegExp) => Promise<string>
  /** Resolves with all that came once the other side has closed, by FIN or reset; rejects after a while. */
  closed: () => Promise<string>
}>

/** On the fair clock. */
const patienceMs = 5_000

/** Connects, and drops the connection with the test. */
export async function openRawClient(owner: Owner, origin: string): Promise<RawClient> {
  const { hostname, port } = new URL(origin)
  const socket = connect(Number(port), hostname)
  owner.teardown(() => socket.destroy())
  const client = watchClient(socket)
  await once(socket, 'connect')
  return client
}

/** Hears what a client's socket is told from now on. */
export function watchClient(socket: Socket): RawClient {
  let text = ''
  let isClosed = false
  const watchers = new Set<() => void>()
  const tell = (): void => {
    for (const watcher of watchers) watcher()
  }
  const close = (): void => {
    isClosed = true
    tell()
  }
  socket.on('error', () => {})
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1')
    tell()
  })
  socket.on('end', close)
  socket.on('close', close)
  const wait = (isDone: () => boolean, what: string): Promise<string> =>
    withOwner(
      (owner) =>
        new Promise((resolve, reject) => {
          const look = (): void => {
            if (isDone()) resolve(text)
            else if (isClosed) reject(new Error(`closed before ${what}: ${text}`))
          }
          const passedMs = startFairClock(owner)
          const giveUp = (): void => {
            if (passedMs() > patienceMs) reject(new Error(`no ${what} within ${patienceMs} ms: ${text}`))
          }
          const timer = setInterval(giveUp, 100)
          watchers.add(look)
          owner.teardown(() => {
            clearInterval(timer)
            watchers.delete(look)
          })
          look()
        }),
    )
  return {
    socket,
    send: (bytes) => void socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes),
    text: () => text,
    until: (pattern) => wait(() => pattern.test(text), String(pattern)),
    closed: () => wait(() => isClosed, 'close'),
  }
}

/** A whole turn of the event loop, after which a connection is offered again, whenever in a turn this begins. */
export async function passTurn(): Promise<void> {
  for (let ends = 0; ends < 3; ends++) await nextTurn()
}

/**
 * Resolves once the condition holds; fails the test when it has not after `withinMs` on the fair clock. It rests longer
 * than it looks, or a condition that reads a page of metrics would keep a processor busy. The longer it waits, the less
 * often it looks.
 */
export async function until(condition: () => unknown, what: string, withinMs = 20_000): Promise<void> {
  if (await condition()) return
  await withOwner(async (owner) => {
    const passedMs = startFairClock(owner)
    const startedMs = performance.now()
    for (let lookedMs = 0; ; ) {
      if (passedMs() > withinMs) throw new Error(`not within ${withinMs} ms: ${what}`)
      const restMs = Math.max(10, Math.min(50, 3 * lookedMs), Math.min(250, (performance.now() - startedMs) / 20))
      await new Promise((resolve) => setTimeout(resolve, restMs))
      const beganMs = performance.now()
      if (await condition()) return
      lookedMs = performance.now() - beganMs
    }
  })
}
