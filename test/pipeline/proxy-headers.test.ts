import t, { type Test } from 'tap'
import { answerOf, get, namesOf, say, startProxy, valuesOf } from '../support/proxy.ts'

const proxy = await startProxy(t)
const { world } = proxy
const acme = String(world.organizations.acme.id)

/** A case of a GET with these lines, judged by the head that the upstream got. */
const testLines = (name: string, lines: string, check: (t: Test, head: string) => void): void =>
  proxy.testCase(t, name, { request: get(lines) }, async (t, { head }) => check(t, await head()))

const ours = ['x-gateway-identity', 'x-organization-id', 'x-request-id', 'x-forwarded-for', 'host']
testLines(
  'A02: a line named by Connection is dropped before the gateway’s is added',
  `Connection: ${ours.join(', ')}\r\n`,
  (t, head) => {
    for (const name of ours) t.equal(valuesOf(head, name).length, 1, name)
    t.match(valuesOf(head, 'x-gateway-identity')[0], /^eyJ/)
    t.same(valuesOf(head, 'x-organization-id'), [acme])
  },
)

testLines(
  'A03: Connection may be repeated, and list names oddly',
  'Connection: ,, X-One ,\tx-two,\r\nConnection:\r\nConnection: keep-alive,,X-THREE\r\nx-one: 1\r\nX-Two: 2\r\nx-three: 3\r\nx-four: 4\r\n',
  (t, head) => {
    t.same(
      namesOf(head).filter((name) => /^x-(?:one|two|three|four)$/.test(name)),
      ['x-four'],
    )
    t.same(valuesOf(head, 'connection'), ['keep-alive'])
  },
)

// RFC 9110 6.5.1: trailers end here, so no upstream is told that they are welcome.
for (const [what, lines] of [
  ['TE', 'TE: trailers\r\n'],
  ['TE with Trailer', 'TE: trailers, deflate;q=0.5\r\nConnection: TE\r\nTrailer: x-sum\r\n'],
] as const)
  testLines(`A05: ${what} is about the client’s connection alone`, lines, (t, head) => {
    t.notMatch(head, /trailer|\nte:/i)
  })

testLines('A08: X-Forwarded-For is the peer’s address', '', (t, head) => {
  t.same(valuesOf(head, 'x-forwarded-for'), ['127.0.0.1'])
})

testLines('A09: X-Forwarded-For of an untrusted peer is replaced', 'X-Forwarded-For: 6.6.6.6\r\n', (t, head) => {
  t.same(valuesOf(head, 'x-forwarded-for'), ['127.0.0.1'])
})

const claims =
  'Forwarded: for=6.6.6.6;host=evil.example;proto=https\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.example\r\n' +
  'X-Forwarded-Uri: /owners/1\r\nX-Forwarded-Method: DELETE\r\nX-Forwarded-Prefix: /evil\r\nX-Forwarded-Port: 4444\r\n' +
  'X-Original-URL: /owners/1\r\nX-Rewrite-URL: /owners/1\r\nX-HTTP-Method-Override: DELETE\r\n'
testLines('A10: what an untrusted peer forwards is replaced or dropped, and decides nothing', claims, (t, head) => {
  t.match(head, /^GET \/x\/1 HTTP\/1\.1\r\n/)
  t.same(
    namesOf(head).filter((name) => /forwarded|original|rewrite|override/.test(name)),
    ['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host'],
  )
  t.same(valuesOf(head, 'x-forwarded-proto'), ['http'])
  t.same(valuesOf(head, 'x-forwarded-host'), ['api.example.com'])
  t.notMatch(head, /evil|6\.6\.6\.6|4444/)
})

proxy.testCase(
  t,
  'A10: a forwarded target opens no other route, nor closes one',
  { request: get('X-Forwarded-Uri: /x/1\r\nX-Forwarded-Method: GET\r\nX-Original-URL: /x/1\r\n', '/owners/1') },
  async (t, { client, received }) => {
    t.match(await client.closed(), /^HTTP\/1\.1 403 /)
    t.same(received(), [])
  },
)

testLines(
  'A12: repeated Forwarded and X-Forwarded-For leave one clean value',
  'X-Forwarded-For: 6.6.6.6\r\nForwarded: for=7.7.7.7\r\nX-Forwarded-For: 8.8.8.8, 9.9.9.9\r\nForwarded: for=1.1.1.1\r\n',
  (t, head) => {
    t.same(valuesOf(head, 'x-forwarded-for'), ['127.0.0.1'])
    t.same(valuesOf(head, 'forwarded'), [])
  },
)

const trusting = await startProxy(t, { world, settings: { trustedProxies: ['127.0.0.0/8'] } })
trusting.testCase(
  t,
  'A11 A12: a trusted peer is believed about the client, in one chain, and about nothing else',
  { request: get(`${claims}X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 203.0.113.9 , 127.0.0.7\r\n`) },
  async (t, { head }) => {
    const seen = await head()
    t.match(seen, /^GET \/x\/1 HTTP\/1\.1\r\n/)
    t.same(valuesOf(seen, 'x-forwarded-for'), ['203.0.113.9, 127.0.0.7, 127.0.0.1'])
    t.same(valuesOf(seen, 'x-forwarded-proto'), ['https'])
    t.same(valuesOf(seen, 'x-forwarded-host'), ['evil.example'])
    t.same(valuesOf(seen, 'forwarded'), [])
  },
)

const spellings = [
  'x-gateway-identity',
  'X-Gateway-Identity',
  'x_gateway_identity',
  'x.gateway.identity',
  'X-GATEWAY_USER',
]
testLines(
  'A13: of the gateway’s internal headers only its own lines arrive',
  [...spellings, 'x_organization_id', 'X.Organization.Id'].map((name) => `${name}: 666\r\n${name}: 667\r\n`).join(''),
  (t, head) => {
    const alike = namesOf(head).map((name) => name.replace(/[^a-z0-9]/g, '-'))
    t.equal(alike.filter((name) => name.startsWith('x-gateway-')).length, 1)
    t.equal(alike.filter((name) => name === 'x-organization-id').length, 1)
    t.notMatch(head, /: 66[67]\r\n/)
  },
)

testLines('A14: credentials end here', 'Authorization: Basic aW5ncmVzcw==\r\n', (t, head) => {
  t.notMatch(head, /authorization|x-oauth-access-token|aW5ncmVzcw/i)
  t.notMatch(head, new RegExp(world.users.member.jwt.slice(-40)))
})

testLines('A15: the upstream’s own Host goes out', '', (t, head) => {
  t.match(valuesOf(head, 'host'), [/^127\.0\.0\.1:\d+$/])
})

testLines('A16: nothing is invented about the client', '', (t, head) => {
  const known = /^(?:host|connection|x-forwarded-(?:for|proto|host)|x-request-id|x-organization-id|x-gateway-identity)$/
  t.same(
    namesOf(head).filter((name) => !known.test(name)),
    [],
  )
})

testLines(
  'A17: repeated lines arrive in their order, with their case',
  'Accept: a\r\nX-Multi: 1\r\naccept: b\r\nx-multi: 2\r\nX-Multi:\r\n',
  (t, head) => t.match(head, /\r\nAccept: a\r\nX-Multi: 1\r\naccept: b\r\nx-multi: 2\r\nX-Multi: ?\r\n/),
)

testLines(
  'A18: cookies of two lines arrive as one',
  'Cookie: a=1; b=2\r\nX-Between: x\r\nCookie: c=3\r\n',
  (t, head) => {
    t.same(valuesOf(head, 'cookie'), ['a=1; b=2; c=3'])
  },
)

proxy.testCase(
  t,
  'A19: two Set-Cookie lines stay two, in their order',
  { request: get(), say: say(answerOf('ok', 'Set-Cookie: a=1; Path=/\r\nX-Between: x\r\nset-cookie: b=2, c\r\n')) },
  async (t, { client }) => {
    t.match(await client.closed(), /\r\nSet-Cookie: a=1; Path=\/\r\nX-Between: x\r\nset-cookie: b=2, c\r\n/)
  },
)

proxy.testCase(
  t,
  'A20: a Via passes unchanged',
  { request: get('Via: 1.1 fore\r\n'), say: say(answerOf('ok', 'Via: 1.0 aft\r\n')) },
  async (t, { client, head }) => {
    t.same(valuesOf(await head(), 'via'), ['1.1 fore'])
    t.same(valuesOf(await client.closed(), 'via'), ['1.0 aft'])
  },
)

proxy.testCase(
  t,
  'A21: bytes beyond ASCII pass unchanged, both ways',
  { request: get('X-Place: caf\xe9 \xe2\x82\xac\r\n'), say: say(answerOf('ok', 'X-Place: \xff\xe9\r\n')) },
  async (t, { client, head }) => {
    t.same(valuesOf(await head(), 'x-place'), ['caf\xe9 \xe2\x82\xac'])
    t.same(valuesOf(await client.closed(), 'x-place'), ['\xff\xe9'])
  },
)

const keeping = await startProxy(t, { world, platform: { preserveHost: true } })
keeping.testCase(
  t,
  'A15: the client’s Host goes out where the configuration says so',
  { request: get() },
  async (t, { head }) => {
    t.same(valuesOf(await head(), 'host'), ['api.example.com'])
  },
)
