import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { call, callRaw } from '../support/client.ts'
import { openRoute, startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { populate } from '../support/population.ts'
import { accept, handshake, socketRoute } from '../support/websocket.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { writer } = await populate(t, world)

/** Headers that change what a browser keeps for the whole site, and so for the platform. */
const siteLines = [
  ...['Set-Cookie: session=stolen; Path=/', 'set_cookie: session=stolen', 'set.cookie: session=stolen'],
  ...['Set-Cookie2: session=stolen', 'Clear-Site-Data: "*"', 'clear_site_data: "*"', 'Service-Worker-Allowed: /'],
  ...['Strict-Transport-Security: max-age=9', 'NEL: {}', 'Report-To: {}', 'Alt-Svc: h3=":1"', 'Public-Key-Pins: x'],
  ...['Use-As-Dictionary: match="/*"', 'Secure-Session-Challenge: "x";id="s"', 'Accept-CH-Lifetime: 9'],
]

const nosy = (text: string): readonly string[] => text.split('\r\n').filter((line) => siteLines.includes(line))

/** Says every line, the cookie `theme` and an own line. */
async function startSayer(t: Test) {
  const lines = [...siteLines, 'Set-Cookie: theme=dark; HttpOnly', 'X-Own: 1', 'Content-Length: 2'].join('\r\n')
  return startRawUpstream(t, (socket, soFar) => {
    if (!soFar.endsWith('\r\n\r\n')) return
    const isUpgrade = /\r\nupgrade: websocket\r\n/i.test(soFar)
    const status = isUpgrade ? '101 Switching Protocols' : '200 OK'
    const switching = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n`
    socket.write(`HTTP/1.1 ${status}\r\n${isUpgrade ? switching : ''}${lines}\r\n\r\n${isUpgrade ? '' : 'hi'}`)
  })
}

/** A client that sends cookies on two lines. A sibling domain can plant one that begins with a space of Latin-1. */
const cookies = 'Cookie: session=secret; theme=dark\r\nCookie: theme =odd; Theme=other; \xa0theme=planted; b=2\r\n'

const ask = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nHost: h\r\n${cookies}${more}Connection: close\r\n\r\n`

const cookieOf = (received: readonly string[]): string | undefined =>
  /\r\ncookie: (.*?)\r\n/i.exec(received.join(''))?.[1]

async function askCluster(t: Test, settings: Readonly<Record<string, unknown>> = {}) {
  const cluster = await startSayer(t)
  const { rows } = await writer.query(
    `insert into clusters (organization_id, name, slug, base_url, status, last_heartbeat_at)
     values ($1, $2, $2, $3, 'active', now()) returning id`,
    [world.organizations.acme.id, randomUUID(), cluster.url],
  )
  const networks = { allow: ['127.0.0.0/8'] }
  const gateway = await startTestGateway(t, { world, settings: { cluster: { networks, ...settings } } })
  const credential = `x-oauth-access-token: ${world.users.member.jwt}\r\n`
  const sent = ask(`/clusters/${rows[0]?.id}/proxy/x`, credential)
  const text = await callRaw(gateway.public, Buffer.from(sent, 'latin1'))
  return { text, received: cluster.received() }
}

t.test('a tenant’s cluster neither gets the platform’s cookies nor sets any', async (t) => {
  const { text, received } = await askCluster(t)
  t.match(text, /^HTTP\/1.1 200 OK\r\n/)
  t.match(text, /\r\nX-Own: 1\r\n/)
  t.same(nosy(text), [])
  t.notMatch(text, /cookie/i)
  t.notMatch(received.join(''), /session|theme|secret/)
})

t.test('cluster.cookies names the cookies that pass, in both directions', async (t) => {
  const { text, received } = await askCluster(t, { cookies: ['theme'] })
  t.equal(cookieOf(received), 'theme=dark')
  t.same(nosy(text), [])
  t.match(text, /\r\nSet-Cookie: theme=dark; HttpOnly\r\n/)
})

t.test('cluster.cookies: forward passes all cookies of a trusted cluster', async (t) => {
  const { text, received } = await askCluster(t, { cookies: 'forward' })
  t.match(cookieOf(received), /session=secret; theme=dark/)
  t.ok(nosy(text).length > 5)
})

for (const [route, text] of [
  [openRoute, ask('/x')],
  [socketRoute, handshake('/x', cookies)],
] as const) {
  const what = route === socketRoute ? 'an upgrade' : 'an answer'
  t.test(`upstreams.<name>.cookies holds for ${what}`, async (t) => {
    for (const [rule, expected, setCookies] of [
      [undefined, 'session=secret; theme=dark; theme =odd; Theme=other; \xa0theme=planted; b=2', 2],
      ['forward', 'session=secret; theme=dark; theme =odd; Theme=other; \xa0theme=planted; b=2', 2],
      ['strip', undefined, 0],
      [['theme', 'b'], 'theme=dark; b=2', 1],
      [[], undefined, 0],
    ] as const) {
      const upstream = await startSayer(t)
      const platform = { url: upstream.url, ...(rule !== undefined && { cookies: rule }) }
      const gateway = await startTestGateway(t, { routes: [route], upstreams: { platform } })
      const answer = await callRaw(gateway.public, Buffer.from(text, 'latin1'))
      t.equal(cookieOf(upstream.received()), expected, String(rule))
      t.equal(answer.match(/\r\nset-cookie: /gi)?.length ?? 0, setCookies, String(rule))
      if (rule !== undefined && rule !== 'forward') t.same(nosy(answer), [])
    }
  })
}

t.test('a cookie without a name matches no name', async (t) => {
  for (const said of ['=theme=dark', 'theme', ' ; theme=dark', 'theme =dark', 'theme\t=dark']) {
    const upstream = await startRawUpstream(t, (socket, soFar) => {
      if (soFar.endsWith('\r\n\r\n'))
        socket.write(`HTTP/1.1 200 OK\r\nset-cookie: ${said}\r\ncontent-length: 0\r\n\r\n`)
    })
    const platform = { url: upstream.url, cookies: ['theme'] }
    const gateway = await startTestGateway(t, { routes: [openRoute], upstreams: { platform } })
    t.equal((await call(gateway.public, { path: '/x' })).headers['set-cookie'], undefined, said)
  }
})
