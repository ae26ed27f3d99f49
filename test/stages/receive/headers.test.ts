import t from 'tap'
import { headerRole } from '../../../gateway/stages/receive/header-role.ts'
import { readHeaders } from '../../../gateway/stages/receive/headers.ts'
import { readRequestId } from '../../../gateway/stages/receive/request-id.ts'

const read = (headers: readonly string[], httpVersion = '1.1') =>
  readHeaders({ headers: ['host', 'h', ...headers], httpVersion })

const refusalOf = (headers: readonly string[], httpVersion = '1.1'): string => {
  try {
    readHeaders({ headers, httpVersion })
    return 'none'
  } catch (error) {
    return (error as { code: string }).code
  }
}

t.test('ordinary lines pass in order, with their case and repetitions', async (t) => {
  const lines = ['Accept', 'a', 'X-One', '1', 'accept', 'b', 'X-Empty', '']
  t.same(read(lines).passing, lines)
})

t.test('a header that decides is read in the order of its lines, and does not pass', async (t) => {
  const headers = read([
    'Authorization',
    'one',
    'X-Oauth-Access-Token',
    'jwt',
    'authorization',
    'two',
    'X-ORGANIZATION-ID',
    '7',
  ])
  t.match(headers, { host: 'h', authorization: ['one', 'two'], oauthAccessToken: ['jwt'], organizationId: ['7'] })
  t.same(headers.passing, [])
})

t.test('the credentials stand apart, for backends that want them', async (t) => {
  t.same(read(['X-OAuth-Access-Token', 'jwt', 'accept', 'a']).credentials, ['x-oauth-access-token', 'jwt'])
  t.same(read(['authorization', 'a', 'connection', 'Authorization']).credentials, [], 'unless Connection names them')
})

t.test('lines that could make a backend see another request stand apart, for backends that ask for them', async (t) => {
  const { passing, overrides } = read([
    'X-Real-IP',
    '1',
    'accept',
    'a',
    'url',
    '/b',
    'x-path',
    'c',
    'connection',
    'X-Path',
  ])
  t.same(passing, ['accept', 'a'])
  t.same(overrides, ['X-Real-IP', '1', 'url', '/b'], 'unless Connection names them')
})

const roles: Readonly<Record<string, readonly string[]>> = {
  drop: [
    'x-gateway-identity',
    'X-Gateway-Anything',
    'x_gateway_identity',
    'x.gateway.identity',
    'X-Gateway_Identity',
    'x_organization_id',
    'x.organization-id',
    'x_oauth_access_token',
    'x_forwarded_for',
    'x-forwarded-port',
    'x.forwarded.proto',
    'x-request-id',
    'x_request_id',
    'Forwarded',
    'Keep-Alive',
    'keep_alive',
    'Proxy-Connection',
    'Proxy-Authorization',
    'proxy_authorization',
    'TE',
    'Trailer',
    'Upgrade',
    'HTTP2-Settings',
    'X-Forwarded',
  ],
  override: [
    'X-HTTP-Method-Override',
    'x-http-method',
    'x_method_override',
    'x-original-url',
    'X-Original-Anything',
    'X-Rewrite-URL',
    'x.rewrite.uri',
    'Proxy',
    'Proxy-Host',
    'X-Envoy-Original-Path',
    'X-Real-IP',
    'x_real_ip',
    'CF-Connecting-IP',
    'Forwarded-For',
    'URL',
    'X-Host',
    'Referrer',
  ],
  forbidden: ['Content_Length', 'content.length', 'Transfer_Encoding', 'TRANSFER.ENCODING'],
  read: [
    'Host',
    'AUTHORIZATION',
    'Cookie',
    'Content-Length',
    'Transfer-Encoding',
    'Expect',
    'Connection',
    'traceparent',
    'tracestate',
  ],
  pass: [
    'Accept',
    'x-gatewayidentity',
    'x-custom_header',
    'x-organization',
    'user-agent',
    'content-type',
    'referer',
    'origin',
    'x-url-id',
    'x-realip-seen',
  ],
}
for (const [kind, names] of Object.entries(roles))
  t.test(`the role of a header line: ${kind}`, async (t) => {
    for (const name of names) t.equal(headerRole(name).kind, kind, name)
  })

t.test('lines that Connection names are dropped, whatever the case, spaces and empty items', async (t) => {
  const { passing } = read(['Connection', ', X-A ,,x-b', 'x-a', '1', 'X-B', '2', 'x-c', '3', 'connection', 'X-C'])
  t.same(passing, [])
})

t.test('a value that equals a named header does not count as that header', async (t) => {
  t.same(read(['connection', 'x-a', 'x-b', 'x-a']).passing, ['x-b', 'x-a'])
})

t.test('cookies of several lines become one, and Connection may take them away', async (t) => {
  t.same(read(['Cookie', 'a=1', 'cookie', 'b=2; c=3']).passing, ['cookie', 'a=1; b=2; c=3'])
  t.same(read(['cookie', 'a=1']).cookie, ['a=1'], 'they are read as well')
  t.same(read(['cookie', 'a=1', 'connection', 'cookie']).passing, [])
})

const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

t.test('a sane traceparent passes once', async (t) => {
  t.same(read(['traceparent', trace]).passing, ['traceparent', trace])
  for (const value of ['', 'x', `ff${trace.slice(2)}`, trace.toUpperCase(), `${trace}-x`, trace.slice(0, -1)])
    t.same(read(['traceparent', value]).passing, [], value)
  t.same(read(['traceparent', trace, 'traceparent', trace]).passing, [])
})

t.test('a tracestate passes with its traceparent, and not alone', async (t) => {
  t.same(read(['tracestate', 'a=1', 'traceparent', trace]).passing, ['traceparent', trace, 'tracestate', 'a=1'])
  t.same(read(['tracestate', 'a=1']).passing, [])
})

t.test('a host is a name or an address, with a port or without', async (t) => {
  for (const host of [
    'h',
    'H',
    'api.example.com',
    'api.example.com.',
    'a_b.example',
    'xn--bcher-kva.example',
    '127.0.0.1',
    '127.0.0.1:80',
    'h:65535',
    '[::1]',
    '[::1]:8080',
    '[::ffff:1.2.3.4]',
  ])
    t.equal(readHeaders({ headers: ['Host', host], httpVersion: '1.1' }).host, host)
})

t.test('anything else is refused as a host', async (t) => {
  for (const host of [
    '',
    ' ',
    'a,b',
    'user@h',
    'h/p',
    'h?q',
    'h#f',
    'h:',
    'h:x',
    'h:65536',
    'h:000001',
    ':80',
    '[::1',
    '::1',
    '[]',
    '[x]',
    '[::::]',
    '[1.2.3.4]',
    'h\\x',
    'h%41',
    'caf\xe9',
    'a b',
  ])
    for (const time of ['once', 'twice'])
      t.equal(refusalOf(['Host', host]), 'headers_malformed', `${JSON.stringify(host)} ${time}`)
  t.equal(refusalOf([]), 'headers_malformed', 'none')
  t.equal(refusalOf(['Host', 'h', 'host', 'h']), 'headers_malformed', 'two')
})

const framings: readonly (readonly [lines: readonly string[], refusal: string, httpVersion?: string])[] = [
  [['content-length', '0'], 'none'],
  [['content-length', '5'], 'none'],
  [['transfer-encoding', 'chunked'], 'none'],
  [['transfer-encoding', 'Chunked'], 'none'],
  [['content-length', '5', 'Content-Length', '5'], 'headers_malformed'],
  [['content-length', ''], 'headers_malformed'],
  [['content-length', '-1'], 'headers_malformed'],
  [['content-length', '5, 5'], 'headers_malformed'],
  [['content-length', '0x5'], 'headers_malformed'],
  [['content-length', '1'.repeat(16)], 'headers_malformed'],
  [['content-length', '5', 'transfer-encoding', 'chunked'], 'headers_malformed'],
  [['transfer-encoding', ''], 'headers_malformed'],
  [['transfer-encoding', 'chunked', 'transfer-encoding', 'chunked'], 'headers_malformed'],
  [['transfer-encoding', 'gzip'], 'transfer_encoding_unknown'],
  [['transfer-encoding', 'gzip, chunked'], 'transfer_encoding_unknown'],
  [['transfer-encoding', 'identity'], 'transfer_encoding_unknown'],
  [['transfer-encoding', 'chunked'], 'headers_malformed', '1.0'],
  [['content_length', '5'], 'headers_malformed'],
  [['expect', '100-Continue'], 'none'],
  [['expect', 'x'], 'expectation_failed'],
  [['accept', 'a'], 'none', '1.0'],
  [['accept', 'a'], 'headers_malformed', '2.0'],
  [['accept', 'a'], 'headers_malformed', '0.9'],
  [['accept', 'a'], 'headers_malformed', '1.2'],
]
t.test('a request says its length once, in one way', async (t) => {
  for (const [lines, refusal, version = '1.1'] of framings)
    t.equal(refusalOf(['host', 'h', ...lines], version), refusal, `${lines.join(' ')} on ${version}`)
})

t.test('headers are 24 KiB at most, each line with its colon, space and end', async (t) => {
  const fill = (bytes: number): readonly string[] => ['host', 'h', 'x', 'y'.repeat(bytes - 'host: h\r\nx: \r\n'.length)]
  t.equal(refusalOf(fill(24_576)), 'none')
  t.equal(refusalOf(fill(24_577)), 'headers_too_large')
})

t.test('a request id is kept if it is the only one and sane', async (t) => {
  for (const id of ['a', 'A.b_c-1', 'x'.repeat(128)]) t.equal(readRequestId(['X-Request-Id', id]), id)
  for (const lines of [
    [],
    ['x-request-id', ''],
    ['x-request-id', 'a b'],
    ['x-request-id', 'a\tb'],
    ['x-request-id', 'a/b'],
    ['x-request-id', 'x'.repeat(129)],
    ['x-request-id', 'a', 'x-request-id', 'a'],
    ['x_request_id', 'a'],
  ])
    t.match(readRequestId(lines), /^[0-9a-f]{8}-[0-9a-f-]{27}$/, lines.join(' '))
})

t.test('made request ids differ', async (t) => {
  t.not(readRequestId([]), readRequestId([]))
})
