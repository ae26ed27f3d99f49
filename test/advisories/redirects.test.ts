import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { openRoute, startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)

async function serve(t: Test, answer: RequestListener): Promise<string> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close().closeAllConnections())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}` // a TCP listener's address is never a string
}

// undici CVE-2023-45143: a client that follows a redirect sends another host's headers along.
t.test('an upstream’s redirect is its client’s business: it is passed on, never followed', async (t) => {
  const elsewhere = await startRawUpstream(t, (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'))
  for (const [status, location] of [
    [301, `${elsewhere.url}/x`],
    [302, '//evil.example/x'],
    [303, `${elsewhere.url}/x`],
    [307, `${elsewhere.url}/x`],
    [308, 'http://['],
  ] as const) {
    const upstream = await startRawUpstream(t, (socket) => {
      socket.write(`HTTP/1.1 ${status} Moved\r\nlocation: ${location}\r\ncontent-length: 0\r\n\r\n`)
    })
    const platform = { url: upstream.url, credentials: 'forward' }
    const gateway = await startTestGateway(t, { routes: [openRoute], upstreams: { platform } })
    const answer = await call(gateway.public, { path: '/x', headers: { cookie: 'secret=1' } })
    t.equal(answer.status, status)
    t.equal(answer.headers.location, location, 'byte for byte')
  }
  t.equal(elsewhere.sockets().length, 0, 'no other server was asked')
})

// oauth2-proxy CVE-2020-4037, Express CVE-2024-29041 and CVE-2024-43796: where to go next came from the request.
t.test('the gateway itself sends no redirect', async (t) => {
  for (const path of [
    '//evil.example',
    '/\\evil.example',
    '/%2f%2fevil.example',
    '/users/me?rd=https://evil.example',
    '/https://evil.example',
    '/public',
  ])
    for (const headers of [
      {},
      { 'x-auth-request-redirect': 'https://evil.example', 'x-forwarded-host': 'evil.example' },
    ]) {
      const answer = await world.call({ path, headers })
      t.ok(answer.status >= 400, `${path}: ${answer.status}`)
      t.equal(answer.headers.location, undefined)
      t.equal(answer.headers.refresh, undefined)
    }
})

t.test('an issuer’s redirect is not followed, to keys or to its description', async (t) => {
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  const keys = JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'k' }] })
  let asked = 0
  const elsewhere = await serve(t, (_request, response) => {
    asked += 1
    response.end(keys)
  })
  for (const status of [302, 308]) {
    const issuer = await serve(
      t,
      (_request, response) => void response.writeHead(status, { location: `${elsewhere}/jwks` }).end(),
    )
    for (const more of [{ jwksUri: `${issuer}/jwks` }, {}]) {
      const gateway = await startTestGateway(t, {
        world,
        settings: { issuers: [{ issuer, audience: 'sallyport-demo', ...more }] },
      })
      const token = new SignJWT({ sub: 'a' }).setIssuer(issuer).setAudience('sallyport-demo').setExpirationTime('1h')
      const jwt = await token.setProtectedHeader({ alg: 'ES256', kid: 'k' }).sign(privateKey)
      t.equal((await call(gateway.public, { path: '/users/me', headers: { 'x-oauth-access-token': jwt } })).status, 503)
    }
  }
  t.equal(asked, 0)
})
