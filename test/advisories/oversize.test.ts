import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { openRawClient, openRoute, startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const mebibyte = 1024 * 1024

const { publicKey, privateKey } = await generateKeyPair('ES256')
const key = { ...(await exportJWK(publicKey)), kid: 'k', use: 'sig' }

/** The status of a request with a token of an issuer that answers so when it is asked for its key set. */
async function enterBy(t: Test, headers: Record<string, string>, body: string | Buffer): Promise<number> {
  const server = createServer((_request, response) => response.writeHead(200, headers).end(body))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close().closeAllConnections())
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // a TCP listener's address is never a string
  const entry = { issuer, audience: 'us', jwksUri: `${issuer}/jwks` }
  const gateway = await startTestGateway(t, { world, settings: { issuers: [entry] } })
  const token = new SignJWT({ sub: 'a' }).setIssuer(issuer).setAudience('us').setExpirationTime('1h')
  const jwt = await token.setProtectedHeader({ alg: 'ES256', kid: 'k' }).sign(privateKey)
  return (await call(gateway.public, { path: '/users/me', headers: { 'x-oauth-access-token': jwt } })).status
}

const setOf = (padding: number): string => JSON.stringify({ keys: [key], padding: 'x'.repeat(padding) })

// undici CVE-2026-22036, jose CVE-2024-28176: a small answer that unfolds into a large one.
t.test('a key set that is too large, packed or not, is refused', async (t) => {
  t.equal(await enterBy(t, {}, setOf(mebibyte / 2)), 200)
  t.equal(await enterBy(t, { 'content-encoding': 'gzip' }, gzipSync(setOf(mebibyte / 2))), 200)
  t.equal(await enterBy(t, {}, setOf(mebibyte)), 503)
  t.equal(
    await enterBy(t, { 'content-encoding': 'gzip' }, gzipSync(setOf(30 * mebibyte))),
    503,
    'unpacked it is 30 MiB',
  )
  t.equal(await enterBy(t, { 'content-encoding': Array(500).fill('gzip').join(', ') }, gzipSync(setOf(1))), 503)
  t.equal(await enterBy(t, {}, JSON.stringify({ keys: [key, ...Array(256).fill({ kty: 'oct' })] })), 503, '257 keys')
})

t.test('a body over its limit is 413, announced or chunked, and no backend has it whole', async (t) => {
  const upstream = await startRawUpstream(t, () => {})
  const gateway = await startTestGateway(t, {
    routes: [{ ...openRoute, limits: { bodyBytes: 1_000 } }],
    upstreams: { platform: { url: upstream.url } },
  })
  const announced = await openRawClient(t, gateway.public)
  announced.send('POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n')
  t.match(await announced.until(/\r\n\r\n/), /^HTTP\/1\.1 413 /)
  t.equal(upstream.sockets().length, 0, 'nothing arrived')
  const chunked = await openRawClient(t, gateway.public)
  chunked.send(
    `POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(1_001)}0\r\n\r\n`,
  )
  t.match(await chunked.until(/\r\n\r\n/), /^HTTP\/1\.1 413 /)
  await until(() => upstream.sockets().every(({ readableEnded, destroyed }) => readableEnded || destroyed), 'its end')
  t.notMatch(upstream.received().join(''), /0\r\n\r\n$/, 'the end of the body did not arrive')
  const vast = await openRawClient(t, gateway.public)
  vast.send('POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n')
  t.match(await vast.until(/\r\n\r\n/), /^HTTP\/1\.1 4(?:00|13) /)
})

// Node CVE-2024-22019: what stands beside a chunk's size was read without end.
t.test('endless chunk extensions, trailers and heads end the connection', async (t) => {
  const upstream = await startRawUpstream(t, () => {})
  const gateway = await startTestGateway(t, { routes: [openRoute], upstreams: { platform: { url: upstream.url } } })
  const head = 'POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n'
  for (const bytes of [
    `${head}1;${'x'.repeat(mebibyte)}`,
    `${head}1\r\nx\r\n0\r\n${'X-Trailer: words\r\n'.repeat(60_000)}`,
    `POST /x HTTP/1.1\r\nHost: h\r\n${'X-Own: words\r\n'.repeat(60_000)}`,
    `POST /${'x'.repeat(mebibyte)}`,
    `${'P'.repeat(mebibyte)} /x HTTP/1.1\r\n`,
  ]) {
    const client = await openRawClient(t, gateway.public)
    client.send(bytes)
    t.match(await client.closed(), /^(?:HTTP\/1\.1 (?:400|413|414|431|501) |$)/, bytes.slice(0, 80))
  }
})

t.test('an event without an end is refused at a limit', async (t) => {
  const upstream = await startRawUpstream(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ')
    const piece = Buffer.alloc(mebibyte, 'x')
    const feed = (): void => {
      while (!socket.destroyed && socket.write(piece));
    }
    socket.on('drain', feed)
    feed()
  })
  const gateway = await startTestGateway(t, {
    routes: [{ ...openRoute, surface: 'model' }],
    upstreams: { platform: { url: upstream.url } },
  })
  const answer = await call(gateway.public, { method: 'POST', path: '/x', body: '{}' })
  t.equal(answer.status, 503)
  t.match(answer.json(), { error: { code: 'event_too_large' } })
  await until(() => upstream.sockets().every(({ destroyed }) => destroyed), 'the end of the upstream’s connection')
})
