import type { Test } from 'tap'
import { openRawClient, until } from '../../support/gateway.ts'
import { accept, handshake } from '../../support/websocket.ts'
import type { IngressFixture } from './fixture.ts'

/** Answers that go on after their head: events come one by one, and WebSockets are joined if a route allows it. */
export function testStreams(t: Test, fixture: IngressFixture): void {
  const { front, backend, world } = fixture
  const credential = `x-oauth-access-token: ${world.users.member.jwt}\r\n`

  t.test('an event arrives before the next is said', async (t) => {
    const client = await openRawClient(t, front.origin)
    client.send(`GET /public/events HTTP/1.1\r\nHost: h\r\n${credential}\r\n`)
    await until(() => backend.list().some(isOpenStream), 'the request')
    for (const data of ['one', 'two']) {
      backend.tellEvent(data)
      await client.until(new RegExp(`data: ${data}\n\n`))
    }
    client.socket.destroy()
    // HAProxy notices a client that has left when it has something to say to it.
    const hasEnded = () => {
      backend.tellEvent('three')
      return !backend.list().some(isOpenStream)
    }
    await until(hasEnded, 'the end at the backend', 10_000)
  })

  t.test('a WebSocket is joined where the route says so', async (t) => {
    const client = await openRawClient(t, front.origin)
    // Connection also names other headers.
    client.send(handshake('/socket', `${credential}Connection: x-gateway-identity, x-organization-id\r\n`))
    t.match(await client.until(/\r\n\r\n/), /^HTTP\/1.1 101 /)
    t.match(client.text().toLowerCase(), `sec-websocket-accept: ${accept}`.toLowerCase())
    // A text frame of "hi" under a mask of zeros (RFC 6455 5.2), and its echo.
    client.send(Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0x68, 0x69]))
    await until(() => client.text().endsWith('\r\n\r\n\x81\x02hi'), 'the echo')
    for (const arrival of backend.list().slice(-1)) await t.resolves(front.verify(arrival))
  })

  t.test('a WebSocket of a stranger is refused', async (t) => {
    const before = backend.list().length
    const client = await openRawClient(t, front.origin)
    client.send(handshake('/socket'))
    t.match(await client.until(/\r\n\r\n/), /^HTTP\/1.1 401 /)
    t.equal(backend.list().length, before)
  })
}

const isOpenStream = (request: Readonly<{ requestLine: string; closedAtMs: number | null }>): boolean =>
  request.requestLine.startsWith('GET /public/events') && request.closedAtMs === null
