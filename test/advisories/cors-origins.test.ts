import t from 'tap'
import { call } from '../support/client.ts'
import { openRoute, startRawUpstream, startTestGateway } from '../support/gateway.ts'

const page = 'https://app.example'
const granting = ['access-control-allow-origin', 'access-control-allow-credentials', 'access-control-expose-headers']
const others = [
  'null',
  'https://evil.example',
  'https://app.example.evil.example',
  'https://evilapp.example',
  'https://sub.app.example',
  'https://app.example:8443',
  'https://app.example.',
  'https://APP.example',
  'http://app.example',
  'https://app.example/',
  'https://app.example, https://evil.example',
  'https://user@app.example',
  'file://',
  '*',
  '',
]

/** A backend that grants access to every origin, which is not its choice. */
const upstream = await startRawUpstream(t, (socket, soFar) => {
  const origin = /\r\norigin: (.*)\r\n/i.exec(soFar.slice(soFar.lastIndexOf('HTTP/1.1')))?.[1] ?? '*'
  const grants = `access-control-allow-origin: ${origin}\r\naccess-control-allow-credentials: true\r\n`
  socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 2\r\n${grants}\r\nok`)
})
const start = (cors: Readonly<Record<string, unknown>>) =>
  startTestGateway(t, { routes: [openRoute], upstreams: { platform: { url: upstream.url } }, settings: { cors } })

// rs/cors CVE-2018-20744, Fiber CVE-2024-25124: an origin was sent back as it came, together with credentials.
t.test('only an origin that is listed may read an answer, and only as it is written', async (t) => {
  const gateway = await start({ origins: [page], credentials: true })
  for (const origin of others)
    for (const [method, path] of [
      ['GET', '/x'],
      ['GET', '/%zz'],
      ['OPTIONS', '/x'],
    ] as const) {
      const headers = { origin, 'access-control-request-method': 'PUT' }
      const answer = await call(gateway.public, { method, path, headers })
      for (const name of granting) t.equal(answer.headers[name], undefined, `${method} ${path} ${origin}: ${name}`)
      t.match(answer.headers.vary, /\borigin\b/, 'nothing between is to mix them up')
    }
  const twice = await call(gateway.public, { path: '/x', headers: { origin: [page, 'https://evil.example'] } })
  t.equal(twice.headers['access-control-allow-origin'], undefined, 'two origins are none')
  const own = await call(gateway.public, { path: '/x', headers: { origin: page } })
  t.equal(own.headers['access-control-allow-origin'], page)
  t.equal(own.headers['access-control-allow-credentials'], 'true')
})

t.test('routes that are open to every origin take no cookies', async (t) => {
  const gateway = await start({ origins: ['*'] })
  for (const origin of [page, ...others]) {
    const { headers } = await call(gateway.public, { path: '/x', headers: { origin } })
    t.equal(headers['access-control-allow-origin'], '*', 'never the origin itself')
    t.equal(headers['access-control-allow-credentials'], undefined)
  }
  await t.rejects(start({ origins: ['*'], credentials: true }), { name: 'ConfigurationError' })
  await t.rejects(start({ origins: ['null'], credentials: true }), { name: 'ConfigurationError' })
})
