import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { startFairClock } from '../support/fair-clock.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { populate } from '../support/population.ts'
import { readAnswer } from '../support/streams.ts'
import { oauth, startTestWorld } from '../support/world.ts'

// Event streams of applications: on every surface but the model's.

const world = await startTestWorld(t)
const { member } = world.users
const { insert } = await populate(t, world)
const comment = ':keep-alive\n\n'

/** Streams that wait for the test's words, by their path. */
const streams = new Map<string, ServerResponse>()
const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://upstream')
  const headers = Object.fromEntries(searchParams)
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', ...headers }).flushHeaders()
  streams.set(pathname, response)
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
t.teardown(() => server.close())
t.teardown(() => server.closeAllConnections())
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // a TCP listener's address is never a string

const own = { surface: 'platform', upstream: 'platform' }
const gateway = await startTestGateway(t, {
  world,
  upstreams: Object.fromEntries(['platform', 'files', 'graphql', 'data'].map((name) => [name, { url }])),
  settings: {
    timeouts: { keepAliveMs: 100, idleMs: 300, streamIdleMs: 2_500 },
    cluster: { networks: { allow: ['127.0.0.0/8'] } },
  },
  routes: [
    ...['platform', 'files', 'graphql', 'data'].map((surface) => ({
      id: surface,
      match: { path: `/${surface}/*` },
      surface,
      upstream: surface,
    })),
    { id: 'quiet', match: { path: '/quiet' }, ...own, keepAlive: false },
    { id: 'short', match: { path: '/short' }, ...own, timeouts: { streamIdleMs: 200 } },
    { id: 'cluster', match: { path: '/clusters/:id/proxy/*' }, surface: 'data', cluster: { param: 'id' } },
  ],
})

async function open(path: string, upstreamPath = path.split('?', 1)[0] ?? '') {
  const answer = await readAnswer(gateway.public + path, { ...oauth(member), accept: 'text/event-stream' })
  const upstream = streams.get(upstreamPath)
  if (!upstream) throw new Error(`${path} did not arrive: ${answer.status}`)
  return { answer, upstream, whole: async () => (await answer.whole()).toString() }
}

t.test('a silent stream gets comments on every surface, before its first event too', async (t) => {
  for (const surface of ['platform', 'files', 'graphql', 'data']) {
    const { answer, upstream, whole } = await open(`/${surface}/silent`)
    t.equal(answer.status, 200, surface)
    await until(() => answer.text().startsWith(comment.repeat(2)), 'two comments')
    upstream.write('data: one\n\n')
    await until(
      () => answer.text().startsWith(`${comment.repeat(2)}data: one\n\n${comment}`),
      'the event and a comment',
    )
    upstream.end('data: two\n\n')
    t.match(await whole(), /data: one\n\n(?::keep-alive\n\n)+data: two\n\n$/)
  }
})

t.test('a comment never falls into an event', async (t) => {
  for (const [index, half] of [
    'd',
    'data: one\n',
    'data: one\r',
    'data: one\r\n',
    'id: 1\r\ndata: one\r\n',
  ].entries()) {
    const { answer, upstream, whole } = await open(`/platform/half-${index}`)
    upstream.write(half)
    await new Promise((resolve) => setTimeout(resolve, 300))
    t.equal(answer.text().replaceAll(comment, ''), half, JSON.stringify(half))
    t.ok(answer.text().endsWith(half), 'nothing after the half')
    upstream.end('\n\n')
    await whole()
  }
  for (const [index, event] of [
    'data: 1\n\n',
    'data: 1\r\r',
    'data: 1\r\n\r\n',
    'data: 1\n\r\n',
    ': x\n\n',
  ].entries()) {
    const { answer, upstream, whole } = await open(`/platform/whole-${index}`)
    for (const byte of event) upstream.write(byte)
    await until(() => answer.text().includes(event + comment), JSON.stringify(event))
    upstream.end()
    await whole()
  }
})

t.test('bytes pass as they are, a byte order mark after a comment excepted', async (t) => {
  const { upstream, whole } = await open('/platform/bytes')
  const bytes = '\u{feff}event: ü\r\ndata\rid\n\n\0'
  upstream.end(bytes)
  const text = await whole()
  // A busy machine may delay the upstream's bytes for longer than the pause before a comment.
  t.equal(text.replaceAll(comment, ''), text.startsWith(comment) ? bytes.slice(1) : bytes)
  const late = await open('/platform/late')
  await until(() => late.answer.text().startsWith(comment), 'a comment')
  late.upstream.end('\u{feff}data: 1\n\n')
  t.equal((await late.whole()).replaceAll(comment, ''), 'data: 1\n\n')
})

t.test('a stream of a stated length can grow by comments', async (t) => {
  const { answer, upstream, whole } = await open('/platform/length?content-length=11')
  t.notOk(answer.headers['content-length'])
  await until(() => answer.text().startsWith(comment), 'a comment')
  upstream.end('data: one\n\n')
  t.equal((await whole()).replaceAll(comment, ''), 'data: one\n\n')
})

t.test('a compressed stream passes untouched', async (t) => {
  const { answer, upstream, whole } = await open('/platform/coded?content-encoding=x-own')
  await new Promise((resolve) => setTimeout(resolve, 250))
  t.equal(answer.text(), '')
  upstream.end('abc')
  t.equal(await whole(), 'abc')
})

t.test('a stream that its upstream breaks off stays recognizable', async (t) => {
  const { answer, upstream, whole } = await open('/platform/broken')
  upstream.write('data: one\n\n')
  await until(() => answer.text().includes('one'), 'the event')
  upstream.destroy()
  await t.rejects(whole())
  t.notMatch(answer.text(), /response\.failed/)
})

t.test('a stream may be silent for streamIdleMs, of its route or of all', async (t) => {
  for (const [path, leastMs, mostMs] of [
    ['/platform/idle', 2_400, 8_000],
    ['/short', 150, 700],
  ] as const) {
    const { whole } = await open(path)
    const startedMs = performance.now()
    const passedMs = startFairClock(t)
    await t.rejects(whole())
    const lastedMs = performance.now() - startedMs
    t.ok(lastedMs > leastMs && passedMs() < mostMs, `${path}: ${lastedMs} ms`)
  }
})

t.test('keepAlive: false and a cluster have the idle time alone', async (t) => {
  const cluster = await insert(
    `clusters (organization_id, name, slug, base_url, status, last_heartbeat_at)
     values ($1, 'Streams', 'streams', $2, 'active', now())`,
    [world.organizations.acme.id, url],
  )
  for (const [path, upstreamPath] of [
    ['/quiet', '/quiet'],
    [`/clusters/${cluster}/proxy/events`, '/events'],
  ] as const) {
    const { answer, upstream, whole } = await open(path, upstreamPath)
    await new Promise((resolve) => setTimeout(resolve, 500))
    t.equal(answer.text(), '', path)
    upstream.end('data: one\n\n')
    t.equal(await whole(), 'data: one\n\n', `${path}, after more than timeouts.idleMs`)
  }
})

t.test('an answer that is not an event stream gets no comments, and the ordinary idle time', async (t) => {
  const { answer, whole } = await open('/platform/page?content-type=text/plain')
  await t.rejects(whole(), 'after timeouts.idleMs')
  t.equal(answer.text(), '')
})
