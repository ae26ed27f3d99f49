import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { openRawClient, startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { handshake, socketRoute, switching } from '../support/websocket.ts'

type Answer = (request: IncomingMessage, response: ServerResponse) => void

/** A backend that sends its own name, can go and come back at the same port, and counts its requests. */
async function startBackend(t: Test, name: string) {
  let asked = 0
  let answer: Answer = (_request, response) => response.end(name)
  const server = createServer((request, response) => {
    if (request.url !== '/health') asked += 1
    request.resume()
    answer(request, response)
  })
  const listen = (port: number): Promise<void> =>
    new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, '127.0.0.1', () => {
        server.off('error', reject)
        resolve()
      })
    })
  await listen(0)
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  const stop = async (): Promise<void> => {
    const closed = new Promise((resolve) => server.close(resolve))
    server.closeAllConnections()
    await closed
  }
  t.teardown(() => stop().catch(() => undefined))
  return {
    url: `http://127.0.0.1:${port}`,
    place: `127.0.0.1:${port}`,
    asked: () => asked,
    stop,
    start: () => listen(port),
    answer: (next: Answer) => {
      answer = next
    },
  }
}

type Settings = Readonly<Record<string, unknown>>

async function start(t: Test, urls: readonly string[], more: Settings = {}) {
  const gateway = await startTestGateway(t, {
    routes: [socketRoute],
    upstreams: { platform: { url: undefined, urls, ...more } },
  })
  const get = (method = 'GET', body?: string) =>
    call(gateway.public, { path: '/x', method, ...(body !== undefined && { body }) })
  const askMany = async (times: number): Promise<readonly string[]> => {
    const seen = new Set<string>()
    for (let count = 0; count < times; count++) {
      const { status, text } = await get()
      seen.add(status === 200 ? text : String(status))
    }
    return [...seen].sort()
  }
  const isUp = async (place: string): Promise<number> => {
    const { text } = await call(gateway.admin, { path: '/metrics' })
    const start = `sallyport_upstream_address_up{upstream="platform",address="${place}"} `
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(start))
        ?.slice(start.length),
    )
  }
  return { gateway, get, askMany, isUp }
}

const ejection = { baseMs: 2_000, maxMs: 2_000 }

t.test('several addresses of one upstream', async (t) => {
  await t.test('each serves, and one that is gone costs no idempotent request anything', async (t) => {
    const [one, two] = [await startBackend(t, 'one'), await startBackend(t, 'two')]
    const { get, askMany, isUp } = await start(t, [one.url, two.url], { ejection })
    t.same(await askMany(6), ['one', 'two'])
    t.same([await isUp(one.place), await isUp(two.place)], [1, 1])
    await one.stop()
    t.same(await askMany(12), ['two'])
    t.same([await isUp(one.place), await isUp(two.place)], [0, 1])
    for (let count = 0; count < 3; count++) t.equal((await get('POST', 'x')).text, 'two', 'known to be gone')
    await one.start()
    await until(async () => (await askMany(2)).includes('one'), 'its return', 15_000)
    t.equal(await isUp(one.place), 1)
  })

  await t.test('a request that may have been processed is not tried at another address', async (t) => {
    const breaking: Answer = (request) => request.socket.destroy()
    const [one, two] = [await startBackend(t, 'one'), await startBackend(t, 'two')]
    one.answer(breaking)
    two.answer(breaking)
    const { get } = await start(t, [one.url, two.url])
    t.equal((await get('POST')).status, 503)
    t.equal((await get('PUT', 'body')).status, 503)
    t.equal(one.asked() + two.asked(), 2, 'once each')
    t.equal((await get('GET')).status, 503)
    t.equal(one.asked() + two.asked(), 4, 'at both, and no more')
    t.ok(one.asked() > 0 && two.asked() > 0)
  })

  await t.test('after a refused connection every method and body goes to a healthy address', async (t) => {
    const backends = [
      await startBackend(t, 'one'),
      await startBackend(t, 'two'),
      await startBackend(t, 'three'),
    ] as const
    const [one, two, three] = backends
    three.answer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => response.end(`${request.method} ${Buffer.concat(chunks).length}`))
    })
    const { gateway } = await start(
      t,
      backends.map(({ url }) => url),
      { ejection: { failures: 1_000 } },
    )
    await one.stop()
    await two.stop()
    const large = 'x'.repeat(300_000)
    const send = async (method: string, body: string | undefined, headers: Readonly<Record<string, string>> = {}) => {
      const { status, text } = await call(gateway.public, {
        path: '/x',
        method,
        headers,
        ...(body !== undefined && { body }),
      })
      return [status, text]
    }
    for (let count = 0; count < 3; count++) {
      t.same(await send('POST', 'small'), [200, 'POST 5'])
      t.same(await send('PUT', large), [200, `PUT ${large.length}`])
      t.same(await send('POST', large, { 'transfer-encoding': 'chunked' }), [200, `POST ${large.length}`])
      t.same(await send('PATCH', 'x', { expect: '100-continue' }), [200, 'PATCH 1'])
      t.same(await send('DELETE', undefined), [200, 'DELETE 0'])
    }
    t.equal(three.asked(), 15, 'once each')
    await three.stop()
    t.equal((await send('POST', 'x'))[0], 503, 'with every address refusing')
  })

  await t.test('an answer is an answer, whatever its status', async (t) => {
    const [one, two] = [await startBackend(t, 'one'), await startBackend(t, 'two')]
    one.answer((_request, response) => response.writeHead(500).end())
    const { askMany, isUp } = await start(t, [one.url, two.url])
    t.same(await askMany(12), ['500', 'two'])
    t.equal(await isUp(one.place), 1)
  })

  await t.test('kept connections that close under a request do not count as failures', async (t) => {
    const [one, two] = [await startBackend(t, 'one'), await startBackend(t, 'two')]
    for (const [backend, name] of [
      [one, 'one'],
      [two, 'two'],
    ] as const)
      backend.answer((request, response) => {
        const { socket } = request
        const served = socket as typeof socket & { hasServed?: boolean }
        if (served.hasServed) socket.destroy()
        else response.end(name)
        served.hasServed = true
      })
    const { askMany, isUp } = await start(t, [one.url, two.url], { ejection: { failures: 1 } })
    t.notOk((await askMany(12)).includes('503'))
    t.same([await isUp(one.place), await isUp(two.place)], [1, 1])
  })

  await t.test('an upstream whose every address is gone is 503, and an address is tried anyway', async (t) => {
    const [one, two] = [await startBackend(t, 'one'), await startBackend(t, 'two')]
    const long = { baseMs: 60_000, maxMs: 60_000 }
    const { askMany } = await start(t, [one.url, two.url], { ejection: long })
    await one.stop()
    await two.stop()
    t.same(await askMany(8), ['503'])
    await one.start()
    await two.start()
    t.equal((await askMany(4)).length, 1, 'one is left alone, the other serves at once')
  })

  await t.test('the less busy address gets the next, WebSockets included', async (t) => {
    const quick = await startBackend(t, 'quick')
    const sockets = await startRawUpstream(t, (socket, soFar) => {
      const isHandshake = /^sec-websocket-key:/im.test(soFar)
      socket.write(isHandshake ? switching : 'HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nsockets')
    })
    quick.answer((_request, response) => response.end('quick'))
    const { gateway, askMany } = await start(t, [sockets.url, quick.url])
    const shake = async () => {
      const client = await openRawClient(t, gateway.public)
      client.send(handshake())
      await client.until(/\r\n\r\n/)
      return client
    }
    // The addresses take turns, and one of them does not switch.
    const clients = [await shake(), await shake()]
    t.equal(clients.filter((client) => client.text().startsWith('HTTP/1.1 101 ')).length, 1)
    t.same(await askMany(6), ['quick'])
    for (const { socket } of clients) socket.destroy()
    for (const socket of sockets.sockets()) socket.destroy()
    await until(async () => (await askMany(2)).includes('sockets'), 'its turn again')
  })

  await t.test('checks find an address that answers and is not well, and find it well again', async (t) => {
    const [one, two] = [await startBackend(t, 'one'), await startBackend(t, 'two')]
    let isWell = true
    one.answer((request, response) => {
      const isCheck = request.url === '/health'
      response.statusCode = isCheck && !isWell ? 500 : 200
      response.end(isCheck ? undefined : 'one')
    })
    const health = { path: '/health', intervalMs: 50, timeoutMs: 500, unhealthyAfter: 2, healthyAfter: 2 }
    const { askMany, isUp } = await start(t, [one.url, two.url], { health })
    t.equal(await isUp(one.place), 1)
    isWell = false
    await until(async () => (await isUp(one.place)) === 0, 'the checks')
    t.same(await askMany(6), ['two'])
    isWell = true
    await until(async () => (await isUp(one.place)) === 1, 'the checks')
    two.answer(() => undefined)
    await until(async () => (await isUp(two.place)) === 0, 'a check that is not answered', 10_000)
  })
})

t.test('an upstream has either an address or several', async (t) => {
  const load = (upstream: Settings) =>
    startTestGateway(t, { upstreams: { platform: upstream } }).catch((error: Error) => error)
  const url = 'http://127.0.0.1:1'
  t.match(JSON.stringify(await load({ url, urls: [url] })), /platform has url and urls; keep one of them/)
  t.match(JSON.stringify(await load({ url: undefined })), /lacks \\"url\\"; add it/)
  t.match(JSON.stringify(await load({ url: undefined, urls: [] })), /urls must list at least one entry/)
  t.match(JSON.stringify(await load({ url: undefined, urls: [url, url] })), /lists an entry twice/)
})
