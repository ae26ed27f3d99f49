import t from 'tap'
import { startTestWorld } from '../support/world.ts'
import { type Arrival, judge } from './judge.ts'
import type { FuzzRequest } from './requests.ts'
import { runFuzz } from './run-fuzz.ts'

const world = await startTestWorld(t)

t.test('nothing that generated requests bring to a backend differs from what was authorized', async (t) => {
  const seed = 20_251
  const report = await runFuzz(t, world, { seed, requests: 4_000, isTimeUp: () => false, clients: 24 })
  t.same(report.violations.slice(0, 3), [])
  t.equal(report.requests, 4_000)
  t.ok(report.arrived > 200, `${report.arrived} arrived`)
  for (const status of [200, 400, 401, 403, 404, 405]) t.ok(report.statuses.has(status), `some were ${status}`)
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
