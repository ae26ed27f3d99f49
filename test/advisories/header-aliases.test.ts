import { writeFileSync } from 'node:fs'
import { decodeJwt } from 'jose'
import t from 'tap'
import { findFreePort } from '../../demo/free-port.ts'
import { writeFolder } from '../integrate/ingress/examples.ts'
import { testProxy } from '../integrate/ingress/programs.ts'
import { startProgram } from '../integrate/ingress/start-program.ts'
import { call } from '../support/client.ts'
import { openRoute, startTestGateway } from '../support/gateway.ts'
import { oauth, type RecordedRequest, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { member } = world.users

/** The name by which CGI, WSGI, PHP and others know a header; two headers with the same one are one to them. */
const alias = (name: string): string => name.toUpperCase().replace(/[^A-Z0-9]/g, '_')

const valuesOf = ({ headers }: RecordedRequest, wanted: string): readonly string[] =>
  headers.flatMap(([name, value]) => (alias(name) === alias(wanted) ? [value] : []))

/** Characters of a name beside letters, digits and hyphens (RFC 9110 5.6.2). */
const others = [..."_.!#$%&'*+^`|~"]

const spellings = (name: string): readonly string[] => [
  name,
  name.toUpperCase(),
  ...others.map((other) => name.replaceAll('-', other)),
  name.replace('-', '_'),
  name.replace('-', '+'),
  name.replace(/-(?=[^-]*$)/, '_'),
]

/** Sends these lines and gives the one request that arrived. */
async function send(lines: readonly string[], body = ''): Promise<RecordedRequest> {
  await world.clearRecorder()
  const own = ['Host: api.example', `x-oauth-access-token: ${member.jwt}`, 'Connection: close']
  const text = await world.raw(`POST /public/x HTTP/1.1\r\n${[...own, ...lines].join('\r\n')}\r\n\r\n${body}`)
  const [arrived, ...more] = await world.recorded()
  if (!arrived || more.length > 0) throw new Error(`${more.length + Number(arrived !== undefined)} arrived: ${text}`)
  return arrived
}

const { acme, globex } = world.organizations

// oauth2-proxy CVE-2025-64484, Traefik CVE-2026-39858 and GHSA-x677-9fxg-v5c5, Caddy GHSA-f59h-q822-g45g. With an
// underscore a client's header passed for the proxy's own. In Caddy GHSA-7r4p-vjf4-gxv4 it was never removed.
for (const name of ['x-gateway-identity', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-request-id'])
  t.test(`${name} arrives once and as the gateway’s, however a client spells it`, async (t) => {
    const clean = await send([])
    for (const spelling of spellings(name)) {
      const arrived = await send([`${spelling}: forged value`])
      const values = valuesOf(arrived, name)
      t.equal(values.length, 1, spelling)
      t.notMatch(values[0], /forged/, spelling)
      if (name === 'x-gateway-identity') t.equal(decodeJwt(values[0] ?? '').sub, String(member.id), spelling)
      else if (name !== 'x-request-id') t.same(values, valuesOf(clean, name), spelling)
    }
  })

t.test('a misspelled credential or deciding header does not count, and does not arrive', async (t) => {
  const { jwt } = world.users.owner
  for (const line of [
    `x_oauth_access_token: ${jwt}`,
    `x.oauth.access.token: ${jwt}`,
    'x-gateway-anything: 1',
    'X_Gateway_User: 1',
    'x.gateway.user: 1',
    'x+gateway+user: 1',
    `x+oauth~access'token: ${jwt}`,
    'x!forwarded!prefix: /admin',
    'x*original*url: /admin',
    'x^http^method^override: DELETE',
    'keep~alive: 5',
    'proxy|connection: close',
    'x_forwarded_prefix: /admin',
    'x-forwarded-prefix: /admin',
    'x-forwarded-port: 443',
    'x_forwarded_uri: /admin',
    'forwarded: for=127.0.0.1;host=admin.example',
  ]) {
    const arrived = await send([line])
    t.equal(decodeJwt(valuesOf(arrived, 'x-gateway-identity')[0] ?? '').sub, String(member.id), line)
    t.same(valuesOf(arrived, line.split(':')[0] ?? ''), [], line)
  }
})

t.test('a wish for an organization counts in its exact name alone', async (t) => {
  for (const other of others) {
    await world.clearRecorder()
    const name = 'x-organization-id'.replaceAll('-', other)
    const headers = { ...oauth(world.users.owner), [name]: String(globex.id) }
    t.equal((await world.call({ path: '/public/x', headers })).status, 200, name)
    const [arrived] = await world.recorded()
    t.same(arrived && valuesOf(arrived, 'x-organization-id'), [String(acme.id)], name)
  }
})

t.test('a framing header in another spelling is malformed', async (t) => {
  for (const name of ['content-length', 'transfer-encoding'])
    for (const other of others) {
      const line = `${name.replace('-', other)}: ${name === 'content-length' ? '5' : 'chunked'}`
      const text = await world.raw(`GET /public/x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n${line}\r\n\r\n`)
      t.match(text, /^HTTP\/1\.1 400 /, line)
    }
})

const script = `#!/bin/sh
printf 'Content-Type: text/plain\\r\\n\\r\\n'
env | grep -E '^HTTP_X_(ORGANIZATION_ID|GATEWAY_|FORWARDED_|OAUTH_)|^HTTP_(AUTHORIZATION|FORWARDED)' | sort
`

// Found here: lighttpd gives a CGI program `x+organization+id` as HTTP_X_ORGANIZATION_ID.
testProxy(t, 'lighttpd', async (t, { path }) => {
  const port = await findFreePort()
  const folder = writeFolder(t, { 'x.cgi': script })
  const conf = [
    'server.modules = ("mod_cgi")',
    `server.document-root = "${folder}"`,
    'server.bind = "127.0.0.1"',
    `server.port = ${port}`,
    'cgi.assign = (".cgi" => "/bin/sh")',
  ]
  writeFileSync(`${folder}/lighttpd.conf`, `${conf.join('\n')}\n`)
  await startProgram(t, { path, args: ['-D', '-f', 'lighttpd.conf'], folder, port })
  const lighttpd = `http://127.0.0.1:${port}`
  const direct = await call(lighttpd, { path: '/x.cgi', headers: { 'x+organization+id': '3' } })
  t.match(direct.text, /^HTTP_X_ORGANIZATION_ID=3$/m, 'the server reads it so')

  const route = { ...openRoute, match: { path: '/*' } }
  const gateway = await startTestGateway(t, { world, routes: [route], upstreams: { platform: { url: lighttpd } } })
  for (const other of others)
    for (const name of ['x-organization-id', 'x-gateway-identity']) {
      const spelling = name.replaceAll('-', other)
      const answer = await call(gateway.public, { path: '/x.cgi', headers: { [spelling]: 'forged' } })
      t.equal(answer.status, 200, spelling)
      t.match(answer.text, /^HTTP_X_FORWARDED_FOR=/m, 'the program has run')
      t.notMatch(answer.text, /forged/, spelling)
    }
})

// Traefik CVE-2026-88004: names that are removed from the head came back as trailers.
t.test('no trailer becomes a header, in any spelling', async (t) => {
  for (const name of [
    'x-gateway-identity',
    'x_gateway_identity',
    'x-forwarded-prefix',
    'x-organization-id',
    'authorization',
  ]) {
    const chunks = `2\r\nhi\r\n0\r\n${name}: forged\r\n\r\n`
    const arrived = await send(['Transfer-Encoding: chunked', `Trailer: ${name}`], chunks)
    t.notMatch(JSON.stringify(arrived), /forged/, name)
  }
})
