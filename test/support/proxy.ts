import type { Socket } from 'node:net'
import type { Test } from 'tap'
import {
  openRawClient,
  type RawClient,
  startRawUpstream,
  startTestGateway,
  type TakeBytes,
  type TestGateway,
  type TestGatewayOptions,
  until,
} from './gateway.ts'
import { startTestWorld, type TestWorld } from './world.ts'

/** The caller of a case: a permitted one, by this line of the request, or a stranger without one. */
export type Credential = string

export type ProxyCase = Readonly<{
  /** The bytes of the client; the credential's line, which may be empty, ends in its own CRLF. */
  request: (credential: Credential) => string | Buffer
  /** The upstream's handling of each chunk, given the bytes of this case on its connection. */
  say?: TakeBytes
  /** The status that a stranger gets. */
  strangerStatus?: number
}>

export type ProxyOptions = Readonly<{
  /** A world in place of one of its own. */
  world?: TestWorld
  settings?: TestGatewayOptions['settings']
  /** More about the upstream. */
  platform?: Readonly<Record<string, unknown>>
}>

/** The traces of a case at the upstream, and the client that drives it. */
export type Drive = Readonly<{
  client: RawClient
  /** The bytes of this case, one text for each connection that carried any. */
  received: () => readonly string[]
  /** The one request that arrived; waits for the end of its head. */
  head: () => Promise<string>
  /** The connections that carried this case. */
  sockets: () => readonly Socket[]
}>

export type Proxy = Readonly<{
  world: TestWorld
  gateway: TestGateway
  /** The line of a caller who may use every route here, but `/owners`. */
  credential: Credential
  /** Drives a case first without a credential, when nothing may reach the upstream, and then with one. */
  testCase: (t: Test, name: string, options: ProxyCase, check: (t: Test, drive: Drive) => Promise<void>) => void
}>

const route = (id: string, path: string, more: object = {}) => ({
  id,
  match: { path },
  surface: 'platform',
  upstream: 'platform',
  ...more,
})

/** `/x/*` takes every credential, `/owners/*` refuses the member who asks. */
const routes = [
  route('any', '/x/*'),
  route('owners', '/owners/*', { require: { role: 'org-owner' } }),
  route('read', '/read/:id', { match: { path: '/read/:id', methods: ['GET'] } }),
  route('small', '/small/*', { limits: { bodyBytes: 1000 } }),
  route('hasty', '/hasty/*', { timeouts: { bodyIdleMs: 300, firstByteMs: 300, idleMs: 300 } }),
  route('agents', '/agent/:id/responses', { surface: 'model', timeouts: { firstByteMs: 2_000 } }),
]

/** A client and an upstream that say exactly the bytes of a test, and the whole gateway between them. */
export async function startProxy(t: Test, options: ProxyOptions = {}): Promise<Proxy> {
  const world = options.world ?? (await startTestWorld(t))
  let say: TakeBytes = sayOk
  let marks: readonly number[] = []
  const since = (bytes: string, connection: number): string => bytes.slice(marks[connection] ?? 0)
  const upstream = await startRawUpstream(t, (socket, soFar, connection) =>
    say(socket, since(soFar, connection), connection),
  )
  const { settings = {}, platform = {} } = options
  const gateway = await startTestGateway(t, {
    world,
    settings,
    routes,
    upstreams: { platform: { url: upstream.url, ...platform } },
  })
  const received = (): readonly string[] => upstream.received().map(since).filter(Boolean)
  const head = async (): Promise<string> => {
    await until(() => received()[0]?.includes('\r\n\r\n'), 'a request at the upstream')
    if (received().length > 1) throw new Error(`more than one request: ${received().join('\n')}`)
    return received()[0] ?? ''
  }
  const sockets = (): readonly Socket[] =>
    upstream.sockets().filter((_, connection) => since(upstream.received()[connection] ?? '', connection) !== '')

  const begin = async (t: Test, bytes: string | Buffer): Promise<RawClient> => {
    marks = upstream.received().map(({ length }) => length)
    const client = await openRawClient(t, gateway.public)
    client.send(bytes)
    return client
  }
  const testStranger = async (t: Test, { request, strangerStatus = 401 }: ProxyCase): Promise<void> => {
    const client = await begin(t, request(''))
    t.match(await client.until(/\r\n\r\n/), new RegExp(`^HTTP/1.1 ${strangerStatus} `), 'a stranger is refused')
    t.same(received(), [], 'and the upstream hears nothing of it')
    client.socket.destroy()
  }
  const credential = `x-oauth-access-token: ${world.users.member.jwt}\r\n`
  return {
    world,
    gateway,
    credential,
    testCase: (t, name, options, check) => {
      void t.test(name, async (t) => {
        say = options.say ?? sayOk
        await testStranger(t, options)
        const client = await begin(t, options.request(credential))
        await check(t, { client, received, head, sockets })
        client.socket.destroy()
        // The rest of an upload may still be on its way, and would be heard by the next test.
        for (const socket of upstream.sockets()) socket.destroy()
      })
    },
  }
}

export const host = 'Host: api.example.com\r\n'

/** A GET with these lines, on a connection that is closed after it. */
export const get =
  (lines = '', target = '/x/1') =>
  (credential: Credential): string =>
    `GET ${target} HTTP/1.1\r\n${host}${credential}${lines}Connection: close\r\n\r\n`

/** A POST with these lines and this body, on a connection that is kept. */
export const post =
  (lines: string, body = '', target = '/x/1') =>
  (credential: Credential): string =>
    `POST ${target} HTTP/1.1\r\n${host}${credential}${lines}\r\n${body}`

/** An upstream's answer of 200. */
export const answerOf = (body: string, lines = ''): string =>
  `HTTP/1.1 200 OK\r\n${lines}content-length: ${body.length}\r\n\r\n${body}`

/** Answers each request once it is whole, whichever way it is framed. */
export const sayOk: TakeBytes = (socket, soFar) => {
  if (isWhole(soFar)) socket.write(answerOf('ok'))
}

/** Answers each whole request with these bytes, each part in a packet of its own. */
export const say =
  (...parts: readonly (string | Buffer)[]): TakeBytes =>
  (socket, soFar) => {
    if (isWhole(soFar)) for (const part of parts) socket.write(typeof part === 'string' ? latin1(part) : part)
  }

export const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1')

/** Whether the last request of these bytes has arrived to its end. */
export function isWhole(bytes: string): boolean {
  const [head = '', body] = bytes.slice(bytes.lastIndexOf(' HTTP/1.1\r\n')).split(/\r\n\r\n([\s\S]*)/)
  if (body === undefined) return false
  if (/\r\ntransfer-encoding:/i.test(head)) return body.endsWith('0\r\n\r\n')
  return body.length >= Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0)
}

/** The values of a header, by its name in small letters, in the order of their lines. */
export const valuesOf = (head: string, name: string): readonly string[] =>
  linesOf(head).flatMap(([found, value]) => (found === name ? [value] : []))

/** The names of a head in small letters, as they stand. */
export const namesOf = (head: string): readonly string[] => linesOf(head).map(([name]) => name)

const linesOf = (head: string): readonly (readonly [name: string, value: string])[] =>
  (head.split('\r\n\r\n', 1)[0] ?? '')
    .split('\r\n')
    .slice(1)
    .map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    })

export const bodyOf = (message: string): string => message.slice(message.indexOf('\r\n\r\n') + 4)
