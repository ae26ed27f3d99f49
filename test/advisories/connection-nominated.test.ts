import { decodeJwt } from 'jose'
import t from 'tap'
import { type RecordedRequest, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { member } = world.users
const acme = String(world.organizations.acme.id)

async function send(connection: readonly string[]): Promise<RecordedRequest> {
  await world.clearRecorder()
  const lines = [
    'Host: api.example',
    `x-oauth-access-token: ${member.jwt}`,
    'X-Own: words',
    'X-Gateway-Identity: forged',
  ]
  const text = await world.raw(`GET /public/x HTTP/1.1\r\n${[...lines, ...connection].join('\r\n')}\r\n\r\n`)
  const [arrived, ...more] = await world.recorded()
  if (!arrived || more.length > 0) throw new Error(text)
  return arrived
}

const valuesOf = ({ headers }: RecordedRequest, wanted: string): readonly string[] =>
  headers.flatMap(([name, value]) => (name.toLowerCase() === wanted ? [value] : []))

/** Headers that a backend relies on, and only the gateway may set. */
const ours = [
  'x-gateway-identity',
  'x-organization-id',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
  'x-request-id',
  'host',
]

// @fastify/reply-from CVE-2026-33805, Traefik CVE-2024-45410 and CVE-2021-32813, Ory Oathkeeper GHSA-w9mr-28mw-j8hg. A
// client that named the proxy's own header in Connection had it removed on the way to the backend.
for (const [how, connection] of Object.entries({
  'in one line': [`Connection: close, ${ours.join(', ')}`],
  'in capitals': [`Connection: ${ours.join(',').toUpperCase()}, close`],
  'over many lines': [...ours.map((name) => `Connection: ${name}`), 'Connection: close'],
  'with odd spaces and empty items': [`Connection: ,, \t${ours.join(' ,\t, ')} ,,close`],
  'in Proxy-Connection': [`Proxy-Connection: ${ours.join(', ')}`, 'Connection: close'],
  'in Keep-Alive and Trailer': [
    `Keep-Alive: ${ours.join(', ')}`,
    `TE: ${ours[0]}`,
    'Connection: keep-alive, te, close',
  ],
}))
  t.test(`no header of the gateway is removed by naming it ${how}`, async (t) => {
    const arrived = await send(connection)
    for (const name of ours) t.equal(valuesOf(arrived, name).length, 1, name)
    t.equal(decodeJwt(valuesOf(arrived, 'x-gateway-identity')[0] ?? '').sub, String(member.id))
    t.same(valuesOf(arrived, 'x-organization-id'), [acme])
    t.same(valuesOf(arrived, 'x-forwarded-for'), ['127.0.0.1'])
  })

t.test('naming what decides takes nothing from the decision', async (t) => {
  await world.clearRecorder()
  const names = 'x-oauth-access-token, x-organization-id, authorization, cookie, host, content-length'
  const head = `GET /admin/x HTTP/1.1\r\nHost: h\r\nConnection: close, ${names}\r\n`
  t.match(await world.raw(`${head}\r\n`), /^HTTP\/1\.1 401 /)
  t.match(await world.raw(`${head}x-oauth-access-token: ${member.jwt}\r\n\r\n`), /^HTTP\/1\.1 403 /)
  const foreign = `x-organization-id: ${world.organizations.globex.id}\r\n`
  t.match(await world.raw(`${head}${foreign}x-oauth-access-token: ${member.jwt}\r\n\r\n`), /^HTTP\/1\.1 401 /)
  t.same(await world.recorded(), [], 'nothing arrived')
})

t.test('a header that Connection names is not forwarded', async (t) => {
  t.same(valuesOf(await send(['Connection: x-own, close']), 'x-own'), [])
  t.same(valuesOf(await send(['Connection: close']), 'x-own'), ['words'])
})
