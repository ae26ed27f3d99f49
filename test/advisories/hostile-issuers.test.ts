import type { AddressInfo } from 'node:net'
import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer, type TLSSocket } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { createAuthority, type Issued, ownNames, testCertificates } from '../support/certificates.ts'
import { call } from '../support/client.ts'
import { until } from '../support/gateway.ts'
import { readRss } from '../support/process-figures.ts'
import { isAlive, startServing } from '../support/serve.ts'
import { startTestWorld } from '../support/world.ts'

const mebibyte = 1024 * 1024
const { publicKey, privateKey } = await generateKeyPair('ES256')
const jwk = { ...(await exportJWK(publicKey)), kid: 'k', use: 'sig' }
const keySet = JSON.stringify({ keys: [jwk] })

const whole = (body: string | Buffer, fields = ''): Buffer =>
  Buffer.concat([
    Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${fields}\r\n`),
    Buffer.from(body),
  ])

/** Writes one text over and over, as fast as it is read, until the other side goes. */
const pour = (socket: Socket, text: string | Buffer): void => {
  const more = (): void => {
    while (!socket.destroyed && socket.write(text));
  }
  socket.on('drain', more)
  more()
}

const bomb = gzipSync(Buffer.alloc(64 * mebibyte, ' '))

/** Answers of a server that is asked for its keys. */
const answers: Readonly<Record<string, (socket: TLSSocket) => unknown>> = {
  'no HTTP': (socket) => socket.end('\u0000\u0001garbage\r\n\r\n'),
  'a status that is none': (socket) => socket.end('HTTP/1.1 2x0 OK\r\n\r\n'),
  'a name with a space': (socket) => socket.end('HTTP/1.1 200 OK\r\nContent Length: 2\r\n\r\n{}'),
  'a head without end': (socket) => {
    socket.write('HTTP/1.1 200 OK\r\n')
    pour(socket, `x: ${'a'.repeat(60_000)}\r\n`)
  },
  'one field without end': (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nx: ')
    pour(socket, Buffer.alloc(64 * 1024, 'a'))
  },
  'a body without end': (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
    pour(socket, `10000\r\n${' '.repeat(0x10000)}\r\n`)
  },
  'a chunk extension without end': (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;')
    pour(socket, Buffer.alloc(64 * 1024, 'a'))
  },
  'trailers without end': (socket) => {
    socket.write(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n`)
    pour(socket, `x: ${'a'.repeat(60_000)}\r\n`)
  },
  'interim answers without end': (socket) => pour(socket, 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'.repeat(200)),
  'continue without end': (socket) => pour(socket, 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(200)),
  'a second handshake': (socket) => void socket.renegotiate({}, () => socket.write(whole('{}'))),
  'another protocol': (socket) =>
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx'),
  'two lengths': (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}'),
  'a length and chunks': (socket) =>
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n'),
  'a length below zero': (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}'),
  'a length that lies': (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{}'),
  'chunks that are none': (socket) => socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n'),
  'a bomb in gzip': (socket) => socket.write(whole(bomb, 'Content-Encoding: gzip\r\n')),
  'a bomb in a bomb': (socket) => socket.write(whole(gzipSync(bomb), 'Content-Encoding: gzip, gzip\r\n')),
  'gzip that is none': (socket) => socket.write(whole('{}', 'Content-Encoding: gzip\r\n')),
  'gzip cut off': (socket) => socket.write(whole(gzipSync(keySet).subarray(0, 40), 'Content-Encoding: gzip\r\n')),
  'brotli that is none': (socket) => socket.write(whole('\u0000{}', 'Content-Encoding: br\r\n')),
  'a reset amid the body': (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{')
    setTimeout(() => socket.destroy(), 50)
  },
  'two answers': (socket) => socket.write(Buffer.concat([whole('{}'), whole(keySet)])),
  'another place': (socket) => socket.write('HTTP/1.1 302 Found\r\nLocation: https://[\r\nContent-Length: 0\r\n\r\n'),
  'a set-cookie without end': (socket) => socket.write(whole('[]', `Set-Cookie: ${'a'.repeat(15_000)}\r\n`)),
}

/** Answers of a server to a connection, before TLS has begun or while it does. */
const handshakes: Readonly<Record<string, (socket: Socket) => unknown>> = {
  'a reset at once': (socket) => socket.resetAndDestroy(),
  'a reset in the handshake': (socket) => socket.once('data', () => socket.resetAndDestroy()),
  'clear text for a handshake': (socket) => socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')),
  'an alert': (socket) => socket.once('data', () => socket.end(Buffer.from([21, 3, 3, 0, 2, 2, 40]))),
  'a record that is too long': (socket) =>
    socket.once('data', () => socket.end(Buffer.concat([Buffer.from([22, 3, 3, 255, 255]), Buffer.alloc(65_535)]))),
  'records without end': (socket) => socket.once('data', () => pour(socket, Buffer.from([20, 3, 3, 0, 1, 1]))),
  silence: () => undefined,
}

async function listen(t: Test, server: Server): Promise<string> {
  const open = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.on('error', () => undefined)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.close()
    for (const socket of open) socket.destroy()
  })
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}` // a TCP listener's address is never a string
}

function serve(own: Issued, answer: (socket: TLSSocket) => unknown): Server {
  // The version that knows second handshakes.
  const server = createTlsServer({ cert: own.cert, key: own.key, maxVersion: 'TLSv1.2' }, (socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => answer(socket))
  })
  return server.on('tlsClientError', () => undefined)
}

const world = await startTestWorld(t)

// Node's own copy of undici: CVE-2026-87018 and its kin, of which a release of Node alone mends the copy that it brings.
testCertificates(t, 'a hostile HTTPS server takes its own issuer alone, in bounded memory', async (t) => {
  const authority = createAuthority(t)
  const own = authority.issue(ownNames)
  const honest = await listen(
    t,
    serve(own, (socket) => socket.write(whole(keySet))),
  )
  const hostile: (readonly [name: string, origin: string])[] = []
  for (const [name, answer] of Object.entries(answers)) hostile.push([name, await listen(t, serve(own, answer))])
  for (const [name, begin] of Object.entries(handshakes)) hostile.push([name, await listen(t, createServer(begin))])
  const entry = (origin: string) => ({ issuer: origin, audience: 'us', jwksUri: `${origin}/keys`, timeoutMs: 1_000 })
  const serving = await startServing(t, {
    world,
    settings: { issuers: [honest, ...hostile.map(([, origin]) => origin)].map(entry), log: { level: 'warn' } },
    environment: { NODE_EXTRA_CA_CERTS: authority.certFile },
  })
  const enter = async (issuer: string): Promise<number> => {
    const token = new SignJWT({ sub: 'a' }).setIssuer(issuer).setAudience('us').setExpirationTime('1h')
    const jwt = await token.setProtectedHeader({ alg: 'ES256', kid: 'k' }).sign(privateKey)
    return (await call(serving.public, { path: '/users/me', headers: { 'x-oauth-access-token': jwt } })).status
  }
  // On a busy machine the first fetch may come after all the hostile ones.
  await until(async () => (await enter(honest)) === 200, 'the keys of the honest issuer')
  const beforeBytes = readRss(serving.pid)
  await Promise.all(hostile.map(async ([name, origin]) => t.equal(await enter(origin), 503, name)))
  t.equal(await enter(honest), 200, 'the others are served')
  t.ok(isAlive(serving.pid))
  t.equal(serving.stderr(), '')
  const grown = Math.round((readRss(serving.pid) - beforeBytes) / mebibyte)
  t.ok(grown < mostMebibytes, `${grown} MiB`)
  t.notOk(serving.log().some(({ msg }) => /uncaught|callback failed/.test(String(msg))))
})

/** An answer of each server may hold 1 MiB, and as much again amid unpacking. */
const mostMebibytes = 200
