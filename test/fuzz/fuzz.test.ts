import t, { type Test } from 'tap'
import { testCertificates } from '../support/certificates.ts'
import { startRawUpstream, until } from '../support/gateway.ts'
import { composeAnswer } from '../support/tagged/answer-plan.ts'
import { type Ask, newFigures, openTaggedClient } from '../support/tagged/client.ts'
import { startTestWorld } from '../support/world.ts'
import { drawAsk, originsFor } from './answers.ts'
import { isOwners } from './decisions.ts'
import { type Arrival, judge } from './judge.ts'
import { judgeAnswer, readAnswerHeads } from './judge-answer.ts'
import type { FuzzRequest } from './requests.ts'
import { rewritingPlan } from './rewrites.ts'
import { runAnswers } from './run-answers.ts'
import { runDecisions } from './run-decisions.ts'
import { runFuzz } from './run-fuzz.ts'

const world = await startTestWorld(t)

/** `npm run fuzz` sends as many as its minutes take. */
const requests = Number(process.env.CAMPAIGN) || 2_000

t.test('nothing that generated requests bring to a backend differs from what was authorized', async (t) => {
  const seed = 20_251
  const report = await runFuzz(t, world, { seed, requests, isTimeUp: () => false, clients: 24 })
  t.same(report.violations.slice(0, 3), [])
  t.equal(report.requests, requests)
  t.ok(report.arrived > 200, `${report.arrived} arrived`)
  for (const status of [200, 400, 401, 403, 404, 405]) t.ok(report.statuses.has(status), `some were ${status}`)
})

t.test('the path of the backend follows from the judged one, and leads to no other route', async (t) => {
  const plan = rewritingPlan
  const report = await runFuzz(t, world, { seed: 20_251, requests, isTimeUp: () => false, clients: 24, plan })
  t.same(report.violations.slice(0, 3), [])
  t.equal(report.requests, requests)
  t.ok(report.arrived > 200, `${report.arrived} arrived`)
  for (const status of [200, 400, 401, 403, 404]) t.ok(report.statuses.has(status), `some were ${status}`)
})

t.test('no words of a client make the decision listener permit what its proxy did not ask for', async (t) => {
  const report = await runDecisions(t, world, { seed: 20_251, requests, isTimeUp: () => false, clients: 24 })
  t.same(report.violations.slice(0, 3), [])
  t.equal(report.requests, requests)
  for (const status of [200, 400, 401, 403])
    t.ok((report.statuses.get(status) ?? 0) > 50, `some were ${status}: ${JSON.stringify([...report.statuses])}`)
})

for (const isTls of [false, true]) {
  const name = `no client gets a byte of another’s answer, whatever follows an answer${isTls ? ', by TLS and two workers' : ''}`
  const run = async (t: Test) => {
    const options = { seed: 20_251, requests, isTimeUp: () => false, clients: 24, isTls, workers: isTls ? 2 : 1 }
    const { violations, backend, ...report } = await runAnswers(t, world, options)
    t.same(violations.slice(0, 3), [])
    t.equal(report.requests, requests)
    t.ok((report.statuses.get(200) ?? 0) > requests * 0.9, report.notes)
    t.ok(backend.reused > requests / 4, report.notes)
    t.ok(backend.crossed > requests / 50, report.notes)
    t.ok(backend.surplus > requests / 100, report.notes)
  }
  if (isTls) testCertificates(t, name, run)
  else t.test(name, run)
}

t.test('the judge of answers by tags finds one foreign byte, a foreign head, and an answer that is cut', async (t) => {
  const ask = (bytes: number): Ask => ({
    caller: { organization: 'acme', name: 'owner', headers: {} },
    number: 7,
    place: 'o0',
    method: 'GET',
    plan: { status: 200, framing: 'length', bytes },
  })
  const sound = composeAnswer(ask(40).plan, 'GET', 'acme/owner/7')
  const altered = Buffer.from(sound)
  altered.writeUInt8(0x78, altered.length - 3)
  const answers: Readonly<Record<string, Buffer>> = {
    'a foreign byte': altered,
    'a foreign head': composeAnswer(ask(40).plan, 'GET', 'globex/owner/8'),
    'a cut answer': composeAnswer(ask(39).plan, 'GET', 'acme/owner/7'),
    'a second answer': Buffer.concat([sound, composeAnswer(ask(40).plan, 'GET', 'globex/owner/8')]),
    'a refusal that tells of another': Buffer.from('HTTP/1.1 503 No\r\ncontent-length: 15\r\n\r\nglobex/owner/8;'),
  }
  const judgeAll = async (answer: Buffer) => {
    const figures = newFigures()
    const upstream = await startRawUpstream(t, (socket) => void socket.write(answer))
    await openTaggedClient(t, { origin: upstream.url, figures, passedMs: () => 0 })([ask(40)])
    await until(() => figures.own + figures.foreign.length > 0, 'a judgement')
    return figures
  }
  t.match(await judgeAll(sound), { own: 1, foreign: [] })
  for (const [what, answer] of Object.entries(answers)) {
    const { foreign } = await judgeAll(answer)
    t.equal(foreign.length, 1, what)
  }
})

t.test('a request of a seed is drawn again alike, and its places change', async (t) => {
  const caller = { organization: 'acme', name: 'owner', headers: {} }
  const places = Array.from({ length: originsFor(1_000) }, (_, index) => `o${index}`)
  const draw = (seed: number) => Array.from({ length: 1_000 }, (_, number) => drawAsk(seed, number, [caller], places))
  t.same(draw(1), draw(1))
  t.not(JSON.stringify(draw(1)), JSON.stringify(draw(2)))
  t.equal(new Set(draw(1).map(({ ask }) => ask.place)).size, places.length)
})

t.test('a route is the owner’s by its path in every reading, by its host and by its method', async (t) => {
  const truth = { method: 'GET', target: '/x', host: 'open.example' }
  t.notOk(isOwners(truth))
  t.notOk(isOwners({ ...truth, target: '/x?a=/admin' }))
  for (const target of ['/admin/x', '/%61dmin/x', '/ADMIN/x', '/.../admin/x'])
    t.ok(isOwners({ ...truth, target }), target)
  for (const host of ['admin.example', 'ADMIN.example:443', 'admin.example.']) t.ok(isOwners({ ...truth, host }), host)
  t.ok(isOwners({ ...truth, method: 'DELETE' }))
})

const soundAnswer = [
  ['x-backend', '1'],
  ['x-request-id', 'a'],
  ['cache-control', 'max-age=60, private'],
  ['content-length', '2'],
] as const

t.test('the judge of answers finds nothing in what is sound', async (t) => {
  t.same(judgeAnswer({ status: 200, headers: soundAnswer }, false), [])
  t.same(judgeAnswer({ status: 200, headers: soundAnswer.filter(([name]) => name !== 'cache-control') }, true), [])
  t.same(judgeAnswer({ status: 100, headers: [] }, false), [])
  t.same(readAnswerHeads('HTTP/1.1 200 OK\r\na: b\r\n\r\nokHTTP/1.1 404 Not Found\r\n\r\n'), [
    { status: 200, headers: [['a', 'b']] },
    { status: 404, headers: [] },
  ])
})

t.test('the judge of answers finds what must not reach a proxy or a cache', async (t) => {
  const faults: readonly (readonly [name: string, value: string])[] = [
    ['X-Accel-Redirect', '/admin'],
    ['x_accel.expires', '9'],
    ['X-Sendfile', '/etc/passwd'],
    ['$WSEP', 'host'],
    ['CDN-Cache-Control', 'max-age=9'],
    ['X-Gateway-Status', '200'],
    ['Proxy-Authenticate', 'Basic'],
    ['transfer-encoding', 'chunked'],
  ]
  for (const fault of faults)
    t.not(judgeAnswer({ status: 200, headers: [...soundAnswer, fault] }, false).length, 0, String(fault))
  for (const missing of ['x-request-id', 'cache-control'])
    t.not(
      judgeAnswer({ status: 200, headers: soundAnswer.filter(([name]) => name !== missing) }, false).length,
      0,
      missing,
    )
  const quoted = soundAnswer.map(
    ([name, value]) => [name, name === 'cache-control' ? 'x="a, private"' : value] as const,
  )
  t.not(judgeAnswer({ status: 200, headers: quoted }, false).length, 0, 'a directive in quotes')
  t.not(judgeAnswer({ status: 404, headers: soundAnswer.slice(1) }, false).length, 0, 'a refusal that may be stored')
  t.not(judgeAnswer({ status: 103, headers: [] }, false).length, 0, 'an interim answer')
})

const claims = { sub: '3', organization: { id: 1 } }
const identity = `x.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.y`

const sound: Arrival = {
  requestLine: 'GET /public/x?y HTTP/1.1',
  headers: [
    ['host', 'backend'],
    ['x-forwarded-for', '127.0.0.1'],
    ['x-forwarded-proto', 'http'],
    ['x-forwarded-host', 'h'],
    ['x-request-id', 'a'],
    ['x-organization-id', '1'],
    ['x-gateway-identity', identity],
  ],
}

const sent: FuzzRequest = {
  method: 'GET',
  target: '/public/x?y',
  caller: { name: 'member', header: ['x-oauth-access-token', 'jwt'], userId: 3 },
  lines: [],
  version: 'HTTP/1.1',
  lineEnd: '\r\n',
  body: '',
}

const withLine = (name: string, value: string): Arrival => ({ ...sound, headers: [...sound.headers, [name, value]] })
const without = (wanted: string): Arrival => ({ ...sound, headers: sound.headers.filter(([name]) => name !== wanted) })

t.test('the judge finds nothing in what is sound', async (t) => {
  t.same(judge(sound, sent), [])
  t.same(judge({ ...sound, requestLine: 'GET /public/administrator HTTP/1.1' }, undefined), [])
})

t.test('the judge of rewritten paths finds another path, another prefix and a protected path', async (t) => {
  const request = { ...sent, target: '/api/x%2Fy?z=/api' }
  const arrival: Arrival = {
    requestLine: 'GET /x%2Fy?z=/api HTTP/1.1',
    headers: [...sound.headers, ['x-forwarded-prefix', '/api']],
  }
  t.same(judge(arrival, request, rewritingPlan), [])
  const based = { ...sound, requestLine: 'GET /base/v1/%70ublic/x HTTP/1.1' }
  t.same(judge(based, { ...sent, target: '/%70ublic/x' }, rewritingPlan), [])
  const faults: Readonly<Record<string, Arrival>> = {
    'a decoded slash': { ...arrival, requestLine: 'GET /x/y?z=/api HTTP/1.1' },
    'the prefix that stayed': { ...arrival, requestLine: 'GET /api/x%2Fy?z=/api HTTP/1.1' },
    'a query that is gone': { ...arrival, requestLine: 'GET /x%2Fy HTTP/1.1' },
    'no word of the prefix': { ...arrival, headers: sound.headers },
    'another prefix': { ...arrival, headers: [...sound.headers, ['x-forwarded-prefix', '/other']] },
  }
  for (const [what, one] of Object.entries(faults)) t.not(judge(one, request, rewritingPlan).length, 0, what)
  for (const path of ['/admin/x', '/ADMIN', '/b/admin', '/b/Admin/', '/b/admin;x', '/base/v1/admin/x'])
    t.not(judge({ ...arrival, requestLine: `GET ${path} HTTP/1.1` }, undefined, rewritingPlan).length, 0, path)
})

t.test('the judge finds what a gateway must not send', async (t) => {
  const faults: Readonly<Record<string, Arrival>> = {
    'a protected path': { ...sound, requestLine: 'GET /admin/x HTTP/1.1' },
    'a path that is protected when decoded': { ...sound, requestLine: 'GET /%61dmin/x HTTP/1.1' },
    'dots that lead to one': { ...sound, requestLine: 'GET /public/%2e%2e/admin/x HTTP/1.1' },
    'a request line that is none': { ...sound, requestLine: 'GET http://h/x HTTP/1.1' },
    'a credential': withLine('Authorization', 'x'),
    'an alias of a header that decides': withLine('x_organization_id', '2'),
    'a second identity': withLine('X-Gateway-Identity', identity),
    'no identity': without('x-gateway-identity'),
    'an organization that is not the signed one': withLine('x-organization-id', '2'),
    'no organization beside a signed one': without('x-organization-id'),
    'a header that may override': withLine('X-Original-URL', '/x'),
    'a word of the client': withLine('x-thing', '192.0.2.1'),
    'a cookie that some server reads as another organization': withLine('Cookie', 'a=1; current-org-id =2'),
    'a host that is none': {
      ...sound,
      headers: sound.headers.map(([name, value]) => [name, name === 'x-forwarded-host' ? 'h;x' : value] as const),
    },
    'a control byte': withLine('x-thing', 'a\nb'),
    'two lengths': { ...sound, headers: [...sound.headers, ['content-length', '1'], ['transfer-encoding', 'chunked']] },
  }
  for (const [what, arrival] of Object.entries(faults)) t.not(judge(arrival, sent).length, 0, what)
  t.not(judge(sound, { ...sent, method: 'POST' }).length, 0, 'another method')
  t.not(judge(sound, { ...sent, target: '/public/y' }).length, 0, 'another target')
  t.not(
    judge(sound, { ...sent, caller: { name: 'client', header: ['a', 'b'], userId: 4 } }).length,
    0,
    'another caller',
  )
})
