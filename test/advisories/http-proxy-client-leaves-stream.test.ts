import t from 'tap'
import { openRawClient, openRoute, startRawUpstream, startTestGateway, until } from '../support/gateway.ts'

// http-proxy 1.18.1 on Node 20: of 100 clients that leave an event stream, none closes its upstream connection.
t.test('after 100 clients leave a stream, their 100 upstream connections close within 1 s', async (t) => {
  const event = 'data: {}\n\n'
  const upstream = await startRawUpstream(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n')
    socket.write(`${event.length.toString(16)}\r\n${event}\r\n`)
  })
  const gateway = await startTestGateway(t, { routes: [openRoute], upstreams: { platform: { url: upstream.url } } })
  const clients = await Promise.all(Array.from({ length: 100 }, () => openRawClient(t, gateway.public)))
  await Promise.all(
    clients.map((client) => {
      client.send('GET /stream HTTP/1.1\r\nHost: h\r\n\r\n')
      return client.until(/data: \{\}\n\n/)
    }),
  )
  const isOpen = (index: number): boolean => upstream.sockets()[index]?.readableEnded === false
  const countOpen = (): number => upstream.sockets().filter((_, index) => isOpen(index)).length
  t.equal(countOpen(), 100)
  for (const { socket } of clients) socket.destroy()
  await until(() => countOpen() === 0, 'the release of every upstream connection', 1_000)
})
