import t, { type Test } from 'tap'
import { openRawClient, openRoute, startTestGateway } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'

// node:http drops bytes behind a request with an upgrade that it does not perform. Without a listener for upgrades
// every version does so, and from 24.9 on also for a declined one with a body. The next packet would then be read as a
// request, though it is the rest of one.
const upgrade = 'Connection: upgrade\r\nUpgrade: websocket\r\n'
const within = 'GET /envoy/hidden HTTP/1.1\r\nHost: h\r\n\r\n'

const asking: Readonly<Record<string, (path: string) => string>> = {
  'a body with a length': (path) => `POST ${path} HTTP/1.1\r\nHost: h\r\n${upgrade}Content-Length: 2\r\n\r\nhi`,
  'a chunked body': (path) =>
    `POST ${path} HTTP/1.1\r\nHost: h\r\n${upgrade}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n`,
}

async function start(t: Test) {
  const requests: string[] = []
  const upstream = await startHttpUpstream(t, (request, response) => {
    requests.push(`${request.method} ${request.url}`)
    request.resume().on('end', () => response.end('ok'))
  })
  const gateway = await startTestGateway(t, { routes: [openRoute], upstreams: { platform: { url: upstream.url } } })
  return { gateway, requests }
}

for (const [what, ask] of Object.entries(asking))
  for (const [listener, prefix] of [
    ['public', ''],
    ['decision', '/envoy'],
  ] as const)
    t.test(`behind an upgrade with ${what} nothing is lost and then misread: ${listener}`, async (t) => {
      const { gateway, requests } = await start(t)
      const client = await openRawClient(t, gateway[listener])
      const outer = `PUT ${prefix}/outer HTTP/1.1\r\nHost: h\r\nContent-Length: ${within.length}\r\n\r\n`
      client.send(ask(`${prefix}/first`) + outer)
      await client.until(/HTTP\/1\.1 200 /)
      client.send(within)
      // Either the second answer comes, or the connection ends without one.
      const text = await client.until(/(?:HTTP\/1\.1 200 [\s\S]*){2}/).catch(() => client.text())
      const answers = text.split('HTTP/1.1 ').length - 1
      t.ok(answers === 2 || /connection: close/i.test(text), text)
      t.notOk(
        requests.some((request) => request.startsWith('GET')),
        'the body of a request is no request',
      )
      if (answers === 2 && listener === 'public') t.same(requests, ['POST /first', 'PUT /outer'])
    })
