import t, { type Test } from 'tap'
import { type Answer, call } from '../support/client.ts'
import { openRawClient, startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { startServing } from '../support/serve.ts'
import { handshake, switching } from '../support/websocket.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

// A browser sends cookies with the requests of every site (cross-site WebSocket hijacking), and a subprotocol that a
// server chooses comes back in its answer.

const world = await startTestWorld(t)
const { member } = world.users
const { jwt } = member
const { robot } = world.serviceAccounts
const cookie = '__Host-access-token'
const origin = 'https://app.example'

/** The heads of the requests that arrived, in order. */
const heads: string[] = []

const upstream = await startRawUpstream(t, (socket, soFar) => {
  const head = soFar.split('\r\n\r\n').at(-2) ?? ''
  heads.push(head)
  socket.write(/^upgrade: websocket/im.test(head) ? switching : 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
})
const guarded = { match: { path: '/*' }, surface: 'platform', upstream: 'platform', websocket: true }
const open = { ...guarded, id: 'open', match: { path: '/open/*' }, access: 'public' }
const routes = [{ ...guarded, id: 'any' }, open]

const issuersWith = (tokens: object) => [{ issuer: world.oidc.issuer, audience: world.oidc.audience, tokens }]

const start = (t: Test, tokens: object, settings: object = {}) =>
  startTestGateway(t, {
    world,
    routes,
    upstreams: { platform: { url: upstream.url } },
    settings: { issuers: issuersWith(tokens), ...settings },
  })

const gateway = await start(t, { cookie, origins: [origin], subprotocol: true })

type Headers = Readonly<Record<string, string | string[]>>

const events = { accept: 'text/event-stream' }
const carried: Headers = { cookie: `a=1; ${cookie}=${jwt}; b=2` }
const ask = (headers: Headers, method = 'GET', path = '/x'): Promise<Answer> =>
  call(gateway.public, { method, path, headers })

/** The status of a handshake with these lines. */
async function join(
  t: Test,
  lines: readonly string[],
  at = gateway.public,
  path = '/x',
  host?: string,
): Promise<number> {
  const client = await openRawClient(t, at)
  const head = handshake(path, lines.map((line) => `${line}\r\n`).join(''))
  client.send(head.replace(/^Host: .*$/im, `Host: ${host ?? new URL(at).host}`))
  const [, status] = /^HTTP\/1\.1 (\d+)/.exec(await client.until(/\r\n\r\n/)) ?? []
  client.socket.destroy()
  return Number(status)
}

const lastHead = (): string => heads.at(-1) ?? ''

t.test('a cookie counts for an EventSource and a WebSocket of a listed origin', async (t) => {
  t.equal((await ask({ ...carried, ...events, origin })).status, 200)
  t.equal((await ask({ ...carried, accept: 'text/html, Text/Event-Stream;q=0.9', origin })).status, 200)
  t.equal((await ask({ ...carried, ...events, 'sec-fetch-site': 'same-origin' })).status, 200, 'of the same origin')
  t.equal(await join(t, [`Origin: ${origin}`, `Cookie: ${cookie}=${jwt}`]), 101)
})

t.test('a page of another origin cannot use the cookie', async (t) => {
  const lies = ['null', 'https://evil.example', `${origin}.evil.example`, `${origin}/`, 'https://APP.example', '*', '']
  for (const other of [...lies, 'http://app.example', `${origin}:443`]) {
    const refused = await ask({ ...carried, ...events, origin: other })
    t.match([refused.status, refused.json().error.code], [403, 'origin_forbidden'], `an EventSource of ${other}`)
    t.equal(await join(t, [`Origin: ${other}`, `Cookie: ${cookie}=${jwt}`]), 403, `a WebSocket of ${other}`)
  }
  t.equal((await ask({ ...carried, ...events, origin: [origin, origin] })).status, 403, 'two origins')
  for (const site of ['same-site', 'cross-site', 'none', 'Same-Origin'])
    t.equal((await ask({ ...carried, ...events, 'sec-fetch-site': site })).status, 403, site)
  t.equal((await ask({ ...carried, ...events })).status, 403, 'no origin')
  const both = { origin: 'https://evil.example', 'sec-fetch-site': 'same-origin' }
  t.equal((await ask({ ...carried, ...events, ...both })).status, 403, 'an origin decides before the site')
  t.equal(await join(t, ['Sec-Fetch-Site: same-origin', `Cookie: ${cookie}=${jwt}`]), 403, 'a WebSocket has an origin')
})

// Pages that may read answers, such as a partner's, are not pages that may act as the user.
t.test('an origin of CORS cannot use the cookie, with its credentials or without', async (t) => {
  for (const cors of [{ origins: [origin] }, { origins: [origin], credentials: true }, { origins: ['*'] }]) {
    const { public: at } = await start(t, { cookie }, { cors })
    t.equal((await call(at, { path: '/x', headers: { ...carried, ...events, origin } })).status, 403)
    t.equal(await join(t, [`Origin: ${origin}`, `Cookie: ${cookie}=${jwt}`], at), 403)
  }
  for (const origins of [['*'], ['null'], ['https://APP.example'], [`${origin}/`], []])
    await t.rejects(start(t, { cookie, origins }), { name: 'ConfigurationError' }, `${origins}`)
  await t.rejects(start(t, { origins: [origin] }), { name: 'ConfigurationError' }, 'without a cookie')
})

t.test('an origin counts for the cookie of its own issuer', async (t) => {
  const other = { issuer: 'https://other.invalid', audience: 'a', required: false }
  const partner = 'https://partner.example'
  for (const name of ['theirs', cookie]) {
    const { public: at } = await start(
      t,
      {},
      {
        issuers: [
          ...issuersWith({ cookie, origins: [origin] }),
          { ...other, tokens: { cookie: name, origins: [partner] } },
        ],
      },
    )
    t.equal(await join(t, [`Origin: ${origin}`, `Cookie: ${cookie}=${jwt}`], at), 101)
    const refused = await join(t, [`Origin: ${partner}`, `Cookie: ${cookie}=${jwt}`], at)
    t.equal(refused, name === cookie ? 401 : 403, 'known by the name, else by the issuer of the token')
  }
})

t.test('the same origin is implied, by the scheme and host that the client used', async (t) => {
  const openAt = (at: string, lines: readonly string[], host?: string) => join(t, lines, at, '/x', host)
  const own = await start(t, { cookie })
  const carrier = `Cookie: ${cookie}=${jwt}`
  const { host } = new URL(own.public)
  t.equal(await openAt(own.public, [`Origin: http://${host}`, carrier]), 101)
  t.equal((await call(own.public, { path: '/x', headers: { ...carried, ...events, origin: own.public } })).status, 200)
  t.equal(
    await openAt(own.public, ['Origin: http://app.example', carrier], 'App.Example:80'),
    101,
    'as a browser writes it',
  )
  for (const other of [`https://${host}`, 'http://127.0.0.1', `http://${host}0`, `http://${host}/`, `ws://${host}`])
    t.equal(await openAt(own.public, [`Origin: ${other}`, carrier]), 403, other)
  t.equal(await openAt(own.public, ['Origin: http://app.example:80', carrier], 'app.example'), 403)
  t.equal(await openAt(own.public, [`Origin: http://${host}`, `Origin: http://${host}`, carrier]), 403, 'two origins')

  const page = 'Origin: http://app.example'
  const told = ['X-Forwarded-Proto: https', carrier]
  t.equal(
    await openAt(own.public, [page, ...told], 'app.example'),
    403,
    'a page without TLS, behind a proxy that ends it',
  )
  t.equal(
    await openAt(own.public, [`Origin: https://app.example`, ...told], 'app.example'),
    403,
    'a proxy not believed',
  )
  const behind = await start(t, { cookie }, { trustedProxies: ['127.0.0.1'] })
  const forwarded = [...told, 'X-Forwarded-Host: app.example:443']
  t.equal(await openAt(behind.public, ['Origin: https://app.example', ...forwarded]), 101)
  t.equal(await openAt(behind.public, [page, ...forwarded]), 403)
  const traefik = ['X-Forwarded-Proto: wss', 'X-Forwarded-Host: app.example', carrier]
  t.equal(await openAt(behind.public, ['Origin: https://app.example', ...traefik]), 101)
  const unclear = ['X-Forwarded-Proto: https, http', 'X-Forwarded-Host: app.example', carrier]
  for (const scheme of ['http', 'https'])
    t.equal(await openAt(behind.public, [`Origin: ${scheme}://app.example`, ...unclear]), 403, scheme)
})

t.test('a cookie is not read for any other request', async (t) => {
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'HEAD'])
    t.equal((await ask({ ...carried, ...events, origin }, method)).status, 401, method)
  for (const accept of ['*/*', 'text/*', 'text/event-streams', 'application/json'])
    t.equal((await ask({ ...carried, accept, origin })).status, 401, accept)
  const weights = [
    'q=0',
    'q=0.',
    'q=0.0',
    'q=0.000',
    'Q=0',
    ' q=0',
    '\tq=0 ',
    'q=0;q=1',
    'q=1;q=0',
    'charset=utf-8;q=0',
  ]
  for (const weight of [...weights, 'q=', 'q=-1', 'q=2', 'q=0.0000', 'q=0.0001', 'q =0', 'q="1"', 'q=1x', 'x=",";q=0'])
    t.equal((await ask({ ...carried, accept: `text/event-stream;${weight}`, origin })).status, 401, weight)
  for (const accept of ['text/event-stream;q=0, text/event-stream', '*/*, text/event-stream ; q=0.00'])
    t.equal((await ask({ ...carried, accept, origin })).status, 401, accept)
  t.equal((await ask({ ...carried, accept: ['text/event-stream', 'text/event-stream;q=0'], origin })).status, 401)
  for (const weight of ['q=1', 'q=1.000', 'q=0.001', 'q=0.5', 'charset=utf-8'])
    t.equal((await ask({ ...carried, accept: `text/event-stream; ${weight}`, origin })).status, 200, weight)
  t.equal((await ask({ ...carried, origin })).status, 401, 'without Accept')
  t.equal((await ask({ ...events, origin, cookie: `${cookie.toLowerCase()}=${jwt}` })).status, 401, 'another name')
})

t.test('a cookie that comes twice is 400', async (t) => {
  for (const twice of [`${cookie}=${jwt}; ${cookie}=${jwt}`, `${cookie}=; ${cookie}=${jwt}`]) {
    t.equal((await ask({ ...events, origin, cookie: twice })).status, 400)
    t.equal(await join(t, [`Origin: ${origin}`, `Cookie: ${twice}`]), 400)
  }
  t.equal((await ask({ ...events, origin, cookie: [`${cookie}=${jwt}`, `${cookie}=x`] })).status, 400, 'on two lines')
})

// A sibling domain may set a cookie whose name begins with a space of Latin-1, and browsers guard `__Host-` alone.
t.test('a name with any space but blanks is another cookie', async (t) => {
  for (const space of ['\xa0', '\x85', '\xad', '\xc2\xa0']) {
    const planted = `${space}${cookie}=${jwt}`
    t.equal((await ask({ ...events, origin, cookie: planted })).status, 401, 'before the name')
    t.equal((await ask({ ...events, origin, cookie: `${cookie}${space}=${jwt}` })).status, 401, 'behind it')
    t.equal((await ask({ ...events, origin, cookie: `${cookie}=${jwt}${space}` })).status, 401, 'in the value')
    const beside = `${space}${cookie}=planted`
    t.equal((await ask({ ...events, origin, cookie: `${beside}; ${cookie}=${jwt}` })).status, 200, 'beside the true')
    t.ok(lastHead().includes(`: ${beside}\r\n`), 'it passes as it came')
  }
  t.equal((await ask({ ...events, origin, cookie: `\t ${cookie} \t=\t ${jwt} \t` })).status, 200, 'blanks alone')
})

t.test('a credential in a header wins over the cookie', async (t) => {
  const bad = { ...events, origin: 'https://evil.example', cookie: `${cookie}=x; ${cookie}=y` }
  t.equal((await ask({ ...bad, ...oauth(member) })).status, 200)
  t.equal((await ask({ ...bad, ...bearer(robot.apiKey) })).status, 200)
  t.equal((await ask({ ...carried, ...events, origin, ...bearer('oat_x') })).status, 401, 'a bad one too')
})

t.test('a subprotocol counts in a handshake, beside another one', async (t) => {
  const line = (value: string): string => `Sec-WebSocket-Protocol: ${value}`
  t.equal(await join(t, [line(`chat, bearer.jwt.${jwt}`)]), 101)
  t.match(lastHead(), /^sec-websocket-protocol: chat$/im, 'the other one arrives')
  t.equal(await join(t, [line('chat'), line(`bearer.jwt.${jwt}`)]), 101, 'on a line of its own')
  t.equal(await join(t, [line(`bearer.jwt.${jwt}`)]), 401, 'alone')
  t.equal(await join(t, [line(`bearer.jwt.${jwt}, ,`)]), 401, 'beside an empty one')
  t.equal(await join(t, [line(`chat, bearer.jwt.${jwt}, bearer.jwt.${jwt}`)]), 400, 'twice')
  t.equal(await join(t, [line('chat, bearer.jwt.x')]), 401, 'no JWT')
  t.equal(await join(t, [line('chat, bearer.jwt.oat_x')]), 401, 'an API token')
  t.equal(await join(t, [line(`chat, bearer.jwt.${jwt}`), `X-OAuth-Access-Token: ${jwt}`]), 400, 'beside a header')
  t.equal(await join(t, [line(`chat, bearer.jwt.${jwt}`), `Authorization: Bearer ${robot.apiKey}`]), 400)
  t.equal((await ask({ 'sec-websocket-protocol': `chat, bearer.jwt.${jwt}` })).status, 401, 'in no other request')
})

t.test('neither the cookie nor the subprotocol reaches an upstream, and nothing else is lost', async (t) => {
  const [, , signature = ''] = jwt.split('.')
  await ask({ ...carried, ...oauth(member), 'sec-websocket-protocol': `chat, bearer.jwt.${jwt}` })
  t.match(lastHead(), /^cookie: a=1; b=2$/im, 'the other cookies')
  t.match(lastHead(), /^sec-websocket-protocol: chat$/im)
  await ask({ cookie: `${cookie}=${jwt}`, 'sec-websocket-protocol': `bearer.jwt.${jwt}` }, 'GET', '/open/x')
  t.match(lastHead(), /^GET \/open\/x /, 'a public route')
  t.notMatch(lastHead(), /^(?:cookie|sec-websocket-protocol):/im, 'no empty line')
  await ask({ ...oauth(member), cookie: 'x=1;y=2 ;  z', 'sec-websocket-protocol': 'a,b' })
  t.match(lastHead(), /^cookie: x=1;y=2 ; {2}z$/im, 'lines without a credential are as they were')
  t.match(lastHead(), /^sec-websocket-protocol: a,b$/im)
  t.notOk(heads.join('').includes(signature), 'the token never')
})

t.test('a token counts where its issuer allows it, also when it is cached', async (t) => {
  const closed = await start(t, { header: true, cookie: 'another', origins: [origin] })
  const at = (headers: Headers) => call(closed.public, { path: '/x', headers })
  t.equal((await at(oauth(member))).status, 200)
  t.equal((await at({ ...carried, ...events, origin })).status, 401, 'a cookie of another name')
  t.equal((await at({ ...events, origin, cookie: `another=${jwt}` })).status, 200)
  t.equal(await join(t, [`Sec-WebSocket-Protocol: chat, bearer.jwt.${jwt}`], closed.public), 401)
})

t.test('by default neither the cookie nor the subprotocol counts, and both pass', async (t) => {
  const plain = await start(t, {})
  t.equal((await call(plain.public, { path: '/x', headers: { ...carried, ...events, origin } })).status, 401)
  const lines = [`Origin: ${origin}`, `Cookie: ${cookie}=x`, 'Sec-WebSocket-Protocol: chat, bearer.jwt.x']
  t.equal(await join(t, [...lines, `Sec-WebSocket-Protocol: bearer.jwt.${jwt}`], plain.public), 401)
  t.equal(await join(t, [...lines, `X-OAuth-Access-Token: ${jwt}`], plain.public), 101)
  t.match(lastHead(), /^cookie: __Host-access-token=x$/im)
  t.match(lastHead(), /^sec-websocket-protocol: chat, bearer\.jwt\.x$/im)
})

t.test('the decision listener reads neither the cookie nor the subprotocol', async (t) => {
  const original = { 'x-forwarded-method': 'GET', 'x-forwarded-uri': '/x' }
  const at = (headers: Headers) => call(gateway.decision, { path: '/authorize', headers: { ...original, ...headers } })
  t.equal((await at(oauth(member))).status, 200)
  t.equal((await at({ ...carried, ...events, origin })).status, 401)
  const protocol = `Sec-WebSocket-Protocol: chat, bearer.jwt.${jwt}`
  const lines = ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: /x', protocol]
  t.equal(await join(t, lines, gateway.decision, '/authorize'), 401)
})

t.test('no log line and no line of the audit has the token', async (t) => {
  const serve = await startServing(t, {
    world,
    upstream: upstream.url,
    settings: {
      issuers: [
        ...issuersWith({ cookie, origins: [origin], subprotocol: true }),
        { issuer: 'https://other.invalid', audience: 'a', required: false, tokens: { cookie: 'plain' } },
      ],
      log: { level: 'debug' },
      audit: { sink: 'stdout' },
    },
  })
  for (const path of ['/users/me', '/nowhere', '/socket']) {
    await call(serve.public, { path, headers: { ...carried, ...events, origin } })
    await call(serve.public, { path, headers: { ...carried, ...events, origin: 'https://evil.example' } })
    await join(t, [`Origin: ${origin}`, `Sec-WebSocket-Protocol: chat, bearer.jwt.${jwt}`], serve.public, path)
  }
  const [, payload = '', signature = ''] = jwt.split('.')
  const told = serve.stdout() + serve.stderr()
  t.ok(told.includes('origin_forbidden'), 'the refusals are told')
  const unbound = serve.log().filter(({ msg }) => msg === 'cookie of tokens not bound to its host')
  t.match(unbound, [{ level: 'warn', issuer: 'https://other.invalid', cookie: 'plain' }])
  t.equal(unbound.length, 1, 'no sibling domain can plant one of __Host-')
  t.notOk(told.includes(signature) || told.includes(payload))
})
