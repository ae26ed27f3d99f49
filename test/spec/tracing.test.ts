import { cpSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { makeFolder, repository } from '../support/deploy.ts'
import { until } from '../support/gateway.ts'
import { startPdp } from '../support/pdp.ts'
import { type Serving, startServing } from '../support/serve.ts'
import { startGroup } from '../support/workers.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'
import { type Collector, type Span, sdkPackages, startCollector, testSdk } from './collector.ts'

const world = await startTestWorld(t)
const { member } = world.users
const { robot } = world.serviceAccounts

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
const parentId = '00f067aa0ba902b7'
const traceparent = `00-${traceId}-${parentId}-01`
const secretHeader = 'collector-password'

/** A backend that remembers the last request, and answers as the path says. */
async function startBackend(t: Test): Promise<Readonly<{ url: string; seen: () => IncomingHttpHeaders }>> {
  let seen: IncomingHttpHeaders = {}
  const server = createServer((request, response) => {
    seen = request.headers
    response.writeHead(request.url?.includes('broken') ? 500 : 200).end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close().closeAllConnections())
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return { url: `http://127.0.0.1:${port}`, seen: () => seen }
}

/** The shipped policies, and a route that asks a decision point. */
function writePolicies(t: Test): string {
  const folder = join(makeFolder(t), 'policies')
  cpSync(join(repository, 'policies'), folder, { recursive: true })
  const decided = {
    id: 'decided',
    match: { path: '/decided/:id' },
    surface: 'platform',
    upstream: 'platform',
    require: { role: 'org-member' },
    decision: { pdp: 'judge', action: 'see', resource: { type: 'thing', param: 'id' } },
  }
  writeFileSync(join(folder, 'decided.yaml'), JSON.stringify({ routes: [decided] }))
  return folder
}

const variablesOf = ({ url }: Collector): Readonly<Record<string, string>> => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: url,
  OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
  OTEL_EXPORTER_OTLP_HEADERS: `authorization=${secretHeader}`,
  OTEL_BSP_SCHEDULE_DELAY: '50',
})

/** The spans of one request id: its own, and those below it. */
async function spansOf(collector: Collector, requestId: string, count: number): Promise<readonly Span[]> {
  const find = (): readonly Span[] => {
    const own = collector.spans().filter(({ attributes }) => attributes['sallyport.request_id'] === requestId)
    return [
      ...own,
      ...collector.spans().filter(({ parentSpanId }) => own.some(({ spanId }) => spanId === parentSpanId)),
    ]
  }
  await until(() => find().length >= count, `${count} spans of ${requestId}`, 10_000)
  return find()
}

testSdk(t, 'with the SDK and an endpoint every request is a span, and its upstream call another', async (t) => {
  const collector = await startCollector(t)
  const backend = await startBackend(t)
  const pdp = await startPdp(t)
  const secretOfPdp = { url: pdp.url, deadlineMs: 60_000, cacheMs: 60_000, headers: { authorization: 'pdp-password' } }
  const settings = { policies: { directory: writePolicies(t) }, decisionPoints: { judge: secretOfPdp } }
  const traced = { packages: sdkPackages, environment: variablesOf(collector) }
  const serving = await startServing(t, { world, settings, upstream: backend.url, ...traced })
  const ask = (path: string, requestId: string, headers: Record<string, string | string[]> = {}) =>
    call(serving.public, { path, headers: { ...oauth(member), 'x-request-id': requestId, ...headers } })

  await t.test('a client’s trace goes on through the gateway to the upstream', async (t) => {
    await ask('/datasets/7?secret=in-the-query', 'through', { traceparent, tracestate: 'vendor=1' })
    const [request, upstream] = await spansOf(collector, 'through', 2)
    t.match(request, { traceId, parentSpanId: parentId, name: 'GET /datasets/:id', kind: 2, status: 0 })
    t.match(upstream, { traceId, parentSpanId: request?.spanId, name: 'GET', kind: 3, status: 0 })
    t.equal(backend.seen().traceparent, `00-${traceId}-${upstream?.spanId}-01`, 'the upstream’s parent is the call')
    t.equal(backend.seen().tracestate, 'vendor=1')
  })

  await t.test('attributes are those of the semantic conventions', async (t) => {
    const [request, upstream] = await spansOf(collector, 'through', 2)
    const { port } = new URL(backend.url)
    t.match(request?.attributes, {
      'http.request.method': 'GET',
      'http.route': '/datasets/:id',
      'http.response.status_code': 200,
      'url.path': '/datasets/7',
      'url.scheme': 'http',
      'network.protocol.version': '1.1',
      'server.address': '127.0.0.1',
      'client.address': '127.0.0.1',
      'sallyport.route': 'datasets.get',
      'sallyport.decision': 'allowed',
      'sallyport.credential': 'oauth',
      'sallyport.listener': 'public',
    })
    t.match(upstream?.attributes, {
      'http.request.method': 'GET',
      'http.response.status_code': 200,
      'server.address': '127.0.0.1',
      'server.port': Number(port),
      'url.full': `${backend.url}/datasets/7`,
      'sallyport.upstream': 'platform',
    })
    t.match(request?.resource, { 'service.name': 'sallyport' })
  })

  await t.test('a bad or missing parent begins a trace of the gateway’s own', async (t) => {
    const zeros = `00-${'0'.repeat(32)}-${parentId}-01`
    for (const [index, bad] of ['nonsense', zeros, [traceparent, traceparent], undefined].entries()) {
      const headers = { tracestate: 'vendor=1', ...(bad !== undefined && { traceparent: bad }) }
      await ask('/datasets', `begun-${index}`, headers)
      const [request, upstream] = await spansOf(collector, `begun-${index}`, 2)
      t.equal(request?.parentSpanId, '')
      t.not(request?.traceId, traceId)
      t.equal(backend.seen().traceparent, `00-${request?.traceId}-${upstream?.spanId}-01`)
      t.equal(backend.seen().tracestate, undefined, 'the vendors’ part is of another trace')
    }
  })

  await t.test('an unsampled trace is not exported, but propagated', async (t) => {
    await ask('/datasets', 'unsampled', { traceparent: `00-${traceId}-${parentId}-00` })
    t.match(backend.seen().traceparent, new RegExp(`^00-${traceId}-(?!${parentId})[0-9a-f]{16}-00$`))
    await ask('/datasets', 'after')
    await spansOf(collector, 'after', 2)
    t.notOk(collector.text().includes('unsampled'))
  })

  await t.test('a refusal is not an error; an upstream’s failure is one', async (t) => {
    await ask('/admin/x', 'refused')
    const [refused, ...none] = await spansOf(collector, 'refused', 1)
    t.same(none, [], 'nothing was called')
    t.match(refused, {
      status: 0,
      attributes: { 'http.response.status_code': 403, 'sallyport.reason': 'role_insufficient' },
    })
    await ask('/datasets/broken', 'broken')
    const [broken, upstream] = await spansOf(collector, 'broken', 2)
    t.match(broken, { status: 2, attributes: { 'error.type': '500' } })
    t.match(upstream, { status: 2, attributes: { 'error.type': '500', 'http.response.status_code': 500 } })
    await ask(`/clusters/${world.clusters.unreachable}/proxy/x`, 'dead')
    const [dead, call] = await spansOf(collector, 'dead', 2)
    t.match(dead, { status: 2, attributes: { 'error.type': 'upstream_unavailable' } })
    t.match(call, { status: 2, attributes: { 'error.type': 'upstream_unavailable' } })
  })

  await t.test('a question to a decision point is a span with its name and what it said', async (t) => {
    await ask('/decided/x', 'decided', { traceparent })
    const spans = await spansOf(collector, 'decided', 3)
    const [request] = spans
    const [decision, upstream] = ['decision', 'GET'].map((wanted) => spans.find(({ name }) => name === wanted))
    const plain = { traceId, parentSpanId: request?.spanId, name: 'decision', kind: 3 }
    t.match(decision, { ...plain, status: 0 })
    t.same(decision?.attributes, { 'sallyport.pdp': 'judge', 'sallyport.pdp_decision': true })
    t.match(upstream, { name: 'GET', attributes: { 'sallyport.upstream': 'platform' } })
    let held = ''
    // If no proof came for almost a second that nothing has changed, the gateway rightly asks anew.
    const isHeld = async (attempt: number): Promise<boolean> => {
      const { length } = pdp.asked
      held = `held-${attempt}`
      await ask('/decided/x', held)
      return pdp.asked.length === length
    }
    let attempts = 0
    await until(() => isHeld(attempts++), 'a held answer')
    t.equal((await spansOf(collector, held, 2)).length, 2, 'a held answer is no question')
    pdp.decide(() => false)
    await ask('/decided/y', 'denied')
    const [, no] = await spansOf(collector, 'denied', 2)
    t.match(no, { status: 0, attributes: { 'sallyport.pdp': 'judge', 'sallyport.pdp_decision': false } })
    pdp.decide(() => 'canary-of-the-body')
    await ask('/decided/z', 'undecided')
    const [, failed] = await spansOf(collector, 'undecided', 2)
    t.match(failed, { status: 2 })
    t.same(failed?.attributes, { 'sallyport.pdp': 'judge', 'error.type': 'pdp_unusable' })
    for (const secret of ['pdp-password', 'canary', `"${member.id}"`])
      t.notOk(collector.text().includes(secret), secret)
    const original = { 'x-original-method': 'GET', 'x-original-uri': '/decided/v', 'x-request-id': 'judged-outside' }
    await call(serving.decision, { path: '/authorize', headers: { ...oauth(member), ...original } })
    const [, judged] = await spansOf(collector, 'judged-outside', 2)
    t.match(judged, { name: 'decision' })
  })

  await t.test('the decision listener has its spans as well', async (t) => {
    const original = { 'x-original-method': 'GET', 'x-original-uri': '/datasets/9?x=1', 'x-request-id': 'judged' }
    await call(serving.decision, { path: '/authorize', headers: { ...oauth(member), ...original, traceparent } })
    const [judged] = await spansOf(collector, 'judged', 1)
    t.match(judged, { traceId, name: 'GET /datasets/:id', attributes: { 'sallyport.listener': 'decision' } })
  })

  await t.test('no secret and no query is in what is exported', async (t) => {
    for (const token of [robot.apiKey, member.jwt]) {
      await ask(`/public/${token}?access_token=${token}`, 'leaky', { cookie: `c=${token}`, 'user-agent': token })
      await call(serving.public, { path: `/public/x?${token}`, headers: { ...bearer(`${token}x`), referer: token } })
    }
    await spansOf(collector, 'leaky', 4)
    t.equal(collector.headers().authorization, secretHeader, 'the collector itself is told')
    const secrets = [robot.apiKey, ...robot.apiKey.split('.').slice(1), ...member.jwt.split('.')]
    for (const secret of [...secrets, 'in-the-query', secretHeader, 'access_token'])
      t.notOk(collector.text().includes(secret), 'not in a span')
    const { text } = await call(serving.admin, { path: '/metrics' })
    for (const secret of [...secrets, secretHeader]) t.notOk(`${text}${serving.stdout()}`.includes(secret))
    t.match(collector.text(), /\[redacted\]/)
  })

  await t.test('pending spans are sent at the end', async (t) => {
    await ask('/datasets', 'last')
    serving.child.kill('SIGTERM')
    t.equal(await serving.ended, 0)
    t.equal((await spansOf(collector, 'last', 2)).length, 2)
  })
})

testSdk(t, 'every worker exports its spans', async (t) => {
  const collector = await startCollector(t)
  const options = { world, packages: sdkPackages, environment: variablesOf(collector) }
  const serving = await startGroup(t, options)
  await until(async () => {
    await call(serving.public, { path: '/nowhere' })
    return collector.spans().length > 0
  }, 'a span')
  const listTold = () => serving.log().filter(({ msg }) => msg === 'tracing started')
  await until(() => listTold().length > 1, 'a line of each worker')
  const told = listTold()
  t.same(told.map(({ worker }) => worker).sort(), [1, 2])
})

testSdk(t, 'a collector that refuses or is gone costs a line of the log, and no request', async (t) => {
  const collector = await startCollector(t, 400)
  const options = { packages: sdkPackages, environment: variablesOf(collector) }
  const serving = await startServing(t, options)
  t.equal((await call(serving.public, { path: '/nowhere' })).status, 404)
  await until(() => complaintsOf(serving, 'spans not exported').length > 0, 'the complaint', 15_000)
  t.notOk(serving.stdout().includes(secretHeader))
})

t.test('asked for traces without the SDK the gateway says what is missing, and serves', async (t) => {
  const serving = await startServing(t, { environment: { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' } })
  t.equal((await call(serving.public, { path: '/nowhere' })).status, 404)
  await until(() => complaintsOf(serving, 'npm install @opentelemetry/sdk-node').length > 0, 'the complaint')
  const [complaint] = complaintsOf(serving, 'npm install @opentelemetry/sdk-node')
  t.match(complaint, { level: 'warn', package: '@opentelemetry/sdk-node' })
})

t.test('without a request for traces no span is made', async (t) => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' }
  const environments = [{}, { ...endpoint, OTEL_TRACES_EXPORTER: 'none' }, { ...endpoint, OTEL_SDK_DISABLED: 'true' }]
  const all = environments.map((environment) => startServing(t, { environment, packages: sdkPackages }))
  for (const serving of await Promise.all(all)) {
    await until(() => complaintsOf(serving, 'listening').length > 0, 'the end of the start')
    t.same(complaintsOf(serving, 'traces'), [])
  }
})

const complaintsOf = ({ log }: Serving, words: string) => log().filter(({ msg }) => String(msg).includes(words))
