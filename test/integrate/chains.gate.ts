import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:tls'
import t, { type Test } from 'tap'
import { parse, stringify } from 'yaml'
import { findFreePort } from '../../demo/free-port.ts'
import { createAuthority, ownNames } from '../support/certificates.ts'
import { openPage, startChromium, testChromium } from '../support/chromium.ts'
import { call } from '../support/client.ts'
import { openRoute, startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { handshake, socketRoute, switching } from '../support/websocket.ts'
import { startTestWorld } from '../support/world.ts'
import { placeExample, writeFolder } from './ingress/examples.ts'
import { type Program, testProxy } from './ingress/programs.ts'
import { startProgram } from './ingress/start-program.ts'

const portOf = (origin: string): number => Number(new URL(origin).port)

/** A header of the last request that a backend got. */
const told = (bytes: string, name: string): string | undefined =>
  new RegExp(`^${name}: (.*)\r$`, 'im').exec(bytes.slice(bytes.lastIndexOf('GET ')))?.[1]

// Traefik writes wss into X-Forwarded-Proto.
testProxy(t, 'traefik', async (t, { path }) => {
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    if (soFar.endsWith('\r\n\r\n')) socket.write(switching)
    if (soFar.endsWith('ping')) socket.write('pong')
  })
  const gateway = await startTestGateway(t, {
    routes: [socketRoute],
    upstreams: { platform: { url: upstream.url } },
    settings: { trustedProxies: ['127.0.0.1'] },
  })
  const port = await findFreePort()
  const authority = createAuthority(t)
  const { cert, key } = authority.issue(ownNames)
  const folder = writeFolder(t, {
    'cert.pem': cert,
    'key.pem': key,
    'traefik.yaml': stringify({
      entryPoints: { secure: { address: `127.0.0.1:${port}` } },
      providers: { file: { filename: 'dynamic.yaml' } },
      global: { checkNewVersion: false, sendAnonymousUsage: false },
    }),
    'dynamic.yaml': stringify({
      tls: { certificates: [{ certFile: 'cert.pem', keyFile: 'key.pem' }] },
      http: {
        routers: { all: { rule: 'PathPrefix(`/`)', service: 'gateway', tls: {} } },
        services: { gateway: { loadBalancer: { servers: [{ url: gateway.public }] } } },
      },
    }),
  })
  await startProgram(t, { path, args: ['--configfile=traefik.yaml'], folder, port })

  await t.test('a WebSocket by TLS through Traefik opens, and its backend hears of https', async (t) => {
    const place = { host: '127.0.0.1', port, ca: authority.cert, servername: 'localhost' }
    // Traefik has another certificate until it has read its files.
    const isReady = () =>
      new Promise<boolean>((resolve) => {
        const probe = connect(place, () => {
          probe.destroy()
          resolve(true)
        })
        probe.once('error', () => resolve(false))
      })
    await until(isReady, 'Traefik has read its files')
    const socket = connect(place)
    t.teardown(() => socket.destroy())
    let text = ''
    socket.on('error', (error) => t.comment(String(error)))
    socket.on('data', (bytes: Buffer) => {
      text += bytes.toString('latin1')
    })
    socket.write(handshake().replace('Host: h', 'Host: localhost'))
    await until(() => text.includes('\r\n\r\n'), 'an answer of the handshake')
    t.match(text, /^HTTP\/1\.1 101 /)
    socket.write('ping')
    await until(() => text.endsWith('pong'), 'the echo')
    t.equal(told(upstream.received().join(''), 'x-forwarded-proto'), 'https')
  })
})

testProxy(t, 'haproxy', async (t, { path }) => {
  const chains: unknown[] = []
  const upstream = await startHttpUpstream(t, ({ headers }, response) => {
    chains.push(headers['x-forwarded-for'])
    response.end('ok')
  })
  const gateway = await startTestGateway(t, {
    routes: [openRoute],
    upstreams: { platform: { url: upstream.url } },
    settings: { trustedProxies: ['127.0.0.1'] },
  })
  const port = await findFreePort()
  const lines = [
    ...['defaults', 'mode http', 'timeout connect 2s', 'timeout client 10s', 'timeout server 10s'],
    ...['frontend clients', `bind 127.0.0.1:${port}`, 'default_backend sallyport', 'backend sallyport'],
    // As Azure Application Gateway and IIS write it.
    'http-request set-header X-Forwarded-For %[src]:%[src_port]',
    `server sallyport 127.0.0.1:${portOf(gateway.public)}`,
  ]
  const folder = writeFolder(t, { 'haproxy.cfg': `${lines.join('\n')}\n` })
  await startProgram(t, { path, args: ['-db', '-f', 'haproxy.cfg'], folder, port })

  await t.test('a client behind a proxy that writes ports is known by its address alone', async (t) => {
    for (const localAddress of ['127.0.0.2', '127.0.0.3']) {
      const answer = await call(`http://127.0.0.1:${port}`, { path: '/data', localAddress })
      t.equal(answer.status, 200)
    }
    t.same(chains, ['127.0.0.2, 127.0.0.1', '127.0.0.3, 127.0.0.1'])
  })
})

/** An empty page of an origin of its own. */
async function servePage(t: Test): Promise<string> {
  const server = createServer((_request, response) =>
    response.setHeader('content-type', 'text/html').end('<!doctype html><title>page</title>'),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}` // a TCP listener's address is never a string
}

type Dynamic = Readonly<{
  http: Readonly<{
    routers: Readonly<Record<string, Readonly<{ middlewares?: readonly string[] }>>>
    middlewares: Readonly<Record<string, object>>
  }>
}>

/** The guide's example with the middleware of its page about other origins. */
function addPages(example: string, pages: string): string {
  const [own, added] = [parse(example) as Dynamic, parse(pages) as Dynamic] // the guide's own files
  const routers = Object.entries(own.http.routers).map(([name, router]) => [
    name,
    router.middlewares ? { ...router, middlewares: ['pages', ...router.middlewares] } : router,
  ])
  const middlewares = { ...own.http.middlewares, ...added.http.middlewares }
  return stringify({ http: { ...own.http, routers: Object.fromEntries(routers), middlewares } })
}

testProxy(t, 'traefik', async (t, { path }: Program) => {
  await testChromium(t, 'a page of another origin', async (t) => {
    const world = await startTestWorld(t)
    const arrived: unknown[] = []
    const backend = await startHttpUpstream(t, ({ method, headers }, response) => {
      arrived.push([method, headers['x-oauth-access-token']])
      response.end('the data')
    })
    const gateway = await startTestGateway(t, {
      world,
      routes: [{ ...openRoute, access: 'authenticated' }],
      upstreams: { platform: { url: backend.url } },
    })
    const [listed, other] = [await servePage(t), await servePage(t)]
    const places = {
      ...{ front: await findFreePort(), public: portOf(gateway.public), decision: portOf(gateway.decision) },
      backend: portOf(backend.url),
    }
    const pages = placeExample('pages-traefik.yaml', places).replace('https://app.example', listed)
    const folder = writeFolder(t, {
      'traefik.yaml': placeExample('traefik.yaml', places),
      'sallyport.yaml': addPages(placeExample('sallyport.yaml', places), pages),
    })
    await startProgram(t, { path, args: ['--configfile=traefik.yaml'], folder, port: places.front })
    const front = `http://127.0.0.1:${places.front}`
    await until(async () => (await call(front, { path: '/data' })).status === 401, 'Traefik has read its files')
    const browser = await startChromium(t)
    const { jwt } = world.users.member

    const fetchFrom = async (origin: string, token: string) => {
      const { page } = await openPage(browser, origin)
      const answer = await page.evaluate(
        async ([url = '', credential = '']) => {
          try {
            const response = await fetch(url, { headers: { 'x-oauth-access-token': credential } })
            return { status: response.status, text: await response.text() }
          } catch {
            return 'not readable'
          }
        },
        [`${front}/data`, token],
      )
      await page.context().close()
      return answer
    }

    await t.test('reads data and refusals through ForwardAuth if it is listed', async (t) => {
      t.same(await fetchFrom(listed, jwt), { status: 200, text: 'the data' })
      t.same(arrived.splice(0), [['GET', undefined]], 'the preflight ended at the proxy')
      t.match(await fetchFrom(listed, `${jwt.slice(0, -8)}AAAAAAAA`), { status: 401, text: /"error"/ })
      t.same(arrived, [])
    })

    await t.test('reads and asks nothing if it is not', async (t) => {
      t.equal(await fetchFrom(other, jwt), 'not readable')
      t.same(arrived, [])
    })
  })
})
