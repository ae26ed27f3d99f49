import t, { type Test } from 'tap'
import { call, type JsonValue } from '../support/client.ts'
import { openRawClient, startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { answerOf, isWhole } from '../support/proxy.ts'

const surfaces = ['platform', 'files', 'data', 'model', 'graphql'] as const
type Surface = (typeof surfaces)[number]

const upstream = await startRawUpstream(t, (socket, soFar) => {
  const target = soFar.slice(0, soFar.lastIndexOf(' HTTP/1.1\r\n')).split(' ').at(-1) ?? ''
  if (target.includes('/silent')) return
  if (target.includes('/half')) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf')
  else if (isWhole(soFar)) socket.write(answerOf('ok'))
})
/** Accepts connections and sends nothing, so that no TLS handshake ends. */
const mute = await startRawUpstream(t, () => {})

const rows: Readonly<Record<string, object>> = {
  usual: {},
  narrow: { limits: { headerBytes: 500, targetBytes: 100, bodyBytes: 10 } },
  wide: { limits: { headerBytes: 20_000, targetBytes: 10_000, bodyBytes: 5_000 } },
  quick: { timeouts: { bodyIdleMs: 200, firstByteMs: 200, idleMs: 200 } },
  mute: { upstream: 'agents', timeouts: { connectMs: 200 } },
}
const routes = surfaces.flatMap((surface) =>
  Object.entries(rows).map(([name, more]) => ({
    id: `${surface}.${name}`,
    match: { path: `/${surface}/${name}/*` },
    surface,
    access: 'public',
    upstream: 'platform',
    ...more,
  })),
)
const upstreams = { platform: { url: upstream.url }, agents: { url: mute.url.replace('http:', 'https:') } }
const settings = { limits: { headerBytes: 2_000, targetBytes: 1_000, bodyBytes: 100 } }
const gateway = await startTestGateway(t, { routes, upstreams, settings })

const head = (target: string, lines = '', method = 'GET'): string =>
  `${method} ${target} HTTP/1.1\r\nHost: h\r\n${lines}\r\n`

const heavyHead = (target: string, bytes: number): string =>
  head(target, `x-fill: ${'x'.repeat(bytes - 'Host: h\r\nx-fill: \r\n'.length)}\r\n`)

const longHead = (route: string, length: number): string => head(`${route}/${'x'.repeat(length - route.length - 1)}`)

const chunkedBody = (target: string, bytes: number): string =>
  `${head(target, 'Transfer-Encoding: chunked\r\n', 'POST')}${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n0\r\n\r\n`

/** Sends bytes on their own connection; returns status and body of the answer, which has a length. */
async function ask(t: Test, bytes: string): Promise<Readonly<{ status: number; text: string }>> {
  const client = await openRawClient(t, gateway.public)
  client.send(bytes)
  const text = await client.until(/\r\n\r\n(?:ok|\{[\s\S]*\})$/)
  client.socket.destroy()
  return { status: Number(text.split(' ')[1]), text: text.slice(text.indexOf('\r\n\r\n') + 4) }
}

function hasShape(t: Test, surface: Surface, text: string, status: number, code: string): void {
  const body: JsonValue = JSON.parse(text)
  const type = status >= 500 ? 'server_error' : 'invalid_request_error'
  const envelope = { success: false, message: String, error: { status, code, requestId: String } }
  const shapes: Readonly<Record<Surface, object>> = {
    platform: envelope,
    files: envelope,
    data: { detail: String },
    model: { error: { message: String, type, code } },
    graphql: { data: null, errors: [{ message: String, path: [], extensions: { code: /^[A-Z_]+$/, status } }] },
  }
  t.match(body, shapes[surface], surface)
}

type Limit = Readonly<{ what: string; status: number; code: string; over: (route: string, bound: number) => string }>

const limits: readonly (Limit & Readonly<{ bounds: Readonly<Record<string, number>> }>)[] = [
  {
    what: 'headers',
    status: 431,
    code: 'headers_too_large',
    over: (route, bound) => heavyHead(`${route}/1`, bound),
    bounds: { narrow: 500, usual: 2_000, wide: 20_000 },
  },
  {
    what: 'a target',
    status: 414,
    code: 'target_too_long',
    over: longHead,
    bounds: { narrow: 100, usual: 1_000, wide: 10_000 },
  },
  {
    what: 'a body with a length',
    status: 413,
    code: 'body_too_large',
    over: (route, bound) => `${head(`${route}/1`, `Content-Length: ${bound}\r\n`, 'POST')}${'x'.repeat(bound)}`,
    bounds: { narrow: 10, usual: 100, wide: 5_000 },
  },
  {
    what: 'a chunked body',
    status: 413,
    code: 'body_too_large',
    over: (route, bound) => chunkedBody(`${route}/1`, bound),
    bounds: { narrow: 10, usual: 100, wide: 5_000 },
  },
]
for (const { what, status, code, over, bounds } of limits)
  t.test(`${what} of just its limit passes, beyond is ${status}, by the route or the configuration`, async (t) => {
    for (const surface of surfaces)
      for (const [name, bound] of Object.entries(bounds)) {
        const route = `/${surface}/${name}`
        t.equal((await ask(t, over(route, bound))).status, 200, `${route}: ${bound}`)
        const refused = await ask(t, over(route, bound + 1))
        t.equal(refused.status, status, `${route}: ${bound + 1}`)
        // A head beyond every route's limit is refused before its route is looked up.
        const isEarly = name === 'wide' && status !== 413
        hasShape(t, isEarly ? 'platform' : surface, refused.text, status, code)
      }
  })

t.test('a body announced beyond its limit is refused before its client is told to go on', async (t) => {
  const expecting = (bytes: number): string =>
    head('/data/narrow/1', `Expect: 100-continue\r\nContent-Length: ${bytes}\r\n`, 'POST')
  const over = await openRawClient(t, gateway.public)
  over.send(expecting(11))
  const text = await over.closed()
  t.match(text, /^HTTP\/1\.1 413 [\s\S]*\r\nconnection: close\r\n/i)
  t.notMatch(text, / 100 /)
  const just = await openRawClient(t, gateway.public)
  just.send(expecting(10))
  t.equal(await just.until(/\r\n\r\n/), 'HTTP/1.1 100 Continue\r\n\r\n')
  just.send('x'.repeat(10))
  t.match(await just.until(/ok$/), /HTTP\/1\.1 200 /)
})

t.test('chunks, extensions and trailers do not count as body, in however many pieces it comes', async (t) => {
  const framing = head('/data/narrow/1', 'Transfer-Encoding: chunked\r\n', 'POST')
  const pieces = `${'1;name=value\r\nx\r\n'.repeat(10)}`
  const trailers = `0\r\nx-sum: ${'7'.repeat(2_000)}\r\n\r\n`
  t.equal((await ask(t, framing + pieces + trailers)).status, 200)
  t.equal((await ask(t, `${framing}${pieces}1\r\nx\r\n${trailers}`)).status, 413)
})

t.test('a head beyond every route’s limit is refused before its route is looked for', async (t) => {
  t.equal((await ask(t, heavyHead('/nowhere', 20_001))).status, 431)
  t.equal((await ask(t, longHead('/nowhere', 10_001))).status, 414)
  t.equal((await ask(t, head('/nowhere'))).status, 404)
})

t.test('the decision listener holds a request against its route’s limits too', async (t) => {
  const decide = async (target: string): Promise<number> => {
    const headers = { 'x-forwarded-method': 'GET', 'x-forwarded-uri': target }
    return (await call(gateway.decision, { path: '/authorize', headers })).status
  }
  for (const [length, status] of [
    [100, 200],
    [101, 414],
  ] as const)
    t.equal(await decide(`/data/narrow/${'x'.repeat(length - '/data/narrow/'.length)}`), status)
})

const post = (target: string): string => `${head(target, 'Content-Length: 8\r\n', 'POST')}half`
const delays: readonly (readonly [what: string, bytes: (surface: Surface) => string, status: number, code: string])[] =
  [
    ['a body that falls silent', (surface) => post(`/${surface}/quick/1`), 408, 'request_timeout'],
    ['an upstream that never answers', (surface) => head(`/${surface}/quick/silent`), 503, 'upstream_timeout'],
    ['an upstream that never connects', (surface) => head(`/${surface}/mute/1`), 503, 'upstream_unavailable'],
  ]
for (const [what, bytes, status, code] of delays)
  t.test(`${what} is ${status} in its route’s time, in the shape of the surface`, async (t) => {
    await Promise.all(
      surfaces.map(async (surface) => {
        const refused = await ask(t, bytes(surface))
        t.equal(refused.status, status, surface)
        hasShape(t, surface, refused.text, status, code)
      }),
    )
  })

t.test('an answer that falls silent is broken off in its route’s time', async (t) => {
  const client = await openRawClient(t, gateway.public)
  client.send(head('/data/quick/half'))
  t.match(await client.closed(), /^HTTP\/1\.1 200 [\s\S]*\r\n\r\nhalf$/)
})
