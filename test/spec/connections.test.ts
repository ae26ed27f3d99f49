import t, { type Test } from 'tap'
import { call, callRaw, type JsonValue } from '../support/client.ts'
import { openRawClient, openRoute, startTestGateway, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { type Serving, startServing } from '../support/serve.ts'
import { gatherThrong } from '../support/throng.ts'
import { askAtOnce, readMetric, startGroup } from '../support/workers.ts'

const skip = process.platform === 'linux' ? false : 'counts descriptors by /proc'

/** `/status` is public: it needs neither a database nor an issuer. */
const path = '/status'

/** An upstream that answers at once, or upon `release` where the query says `held`. */
async function startUpstream(t: Test) {
  const held: (() => void)[] = []
  const upstream = await startHttpUpstream(t, (request, response) => {
    const answer = (): void => void response.end('ok')
    if (request.url?.includes('held')) held.push(answer)
    else answer()
  })
  return { url: upstream.url, held, release: () => held.splice(0).map((answer) => answer()) }
}

const health = async ({ admin }: Serving): Promise<number> => (await call(admin, { path: '/healthz' })).status

async function watchHealth(serving: Serving, work: () => Promise<unknown>): Promise<number> {
  let isDone = false
  let beats = 0
  const worked = work().finally(() => {
    isDone = true
  })
  while (!isDone) {
    if ((await health(serving)) !== 200) throw new Error('not healthy')
    beats += 1
  }
  await worked
  return beats
}

const openFiles = async (serving: Serving): Promise<number> => (await readMetric(serving, 'process_open_fds'))[''] ?? 0

async function checkAsBefore(t: Test, serving: Serving, filesBefore: number): Promise<void> {
  await until(
    async () => ((await readMetric(serving, 'sallyport_connections_open'))['listener="public"'] ?? 0) <= 1,
    'that all are gone',
  )
  await askAtOnce(20, 10, async () => {
    const { status } = await call(serving.public, { path })
    if (status !== 200) throw new Error(`answered ${status}`)
  })
  await until(async () => (await openFiles(serving)) <= filesBefore + 25, 'as many open files as before', 10_000)
  t.ok(serving.child.exitCode === null)
}

t.test('a connection beyond the limit is closed at once and counted, and a free place is taken again', async (t) => {
  const { url } = await startUpstream(t)
  const gateway = await startTestGateway(t, {
    routes: [openRoute],
    upstreams: { platform: { url } },
    settings: {
      listeners: Object.fromEntries(
        ['public', 'decision', 'admin'].map((name) => [name, { host: '127.0.0.1', port: 0, maxConnections: 3 }]),
      ),
    },
  })
  const inside = await Promise.all([1, 2, 3].map(() => openRawClient(t, gateway.public)))
  const outside = await openRawClient(t, gateway.public)
  t.equal(await outside.closed(), '', 'without a word')
  for (const client of inside) {
    client.send('GET /x HTTP/1.1\r\nHost: h\r\n\r\n')
    t.match(await client.until(/ok$/), /^HTTP\/1\.1 200 /)
  }
  const { text } = await call(gateway.admin, { path: '/metrics' })
  t.match(text, /^sallyport_connections_dropped_total\{listener="public",reason="limit"\} 1$/m)
  t.match(text, /^sallyport_connections_open\{listener="public"\} 3$/m)
  t.match(text, /^sallyport_connections_limit\{listener="public"\} 3$/m)
  inside[0]?.socket.destroy()
  await until(async () => {
    const answer = await callRaw(gateway.public, 'GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n')
    return answer.startsWith('HTTP/1.1 200 ')
  }, 'a free place')
})

t.test(
  'a gateway with 512 descriptors survives 2,000 connections, and serves as before once they leave',
  { skip },
  async (t) => {
    const { url } = await startUpstream(t)
    const serving = await startServing(t, { upstream: url, descriptors: 512 })
    const isWarning = ({ msg, listener, descriptors }: JsonValue): boolean =>
      /connection limit lowered/.test(msg) && listener === 'public' && descriptors === 512
    await until(() => serving.log().some(isWarning), 'the warning')
    await call(serving.public, { path })
    const before = await openFiles(serving)
    const beats = await watchHealth(serving, async () => {
      const crowd = await gatherThrong(t, serving.public, 2_000)
      await until(() => crowd.open().length < 512, 'that most are turned away')
      const [first] = crowd.open()
      t.ok(crowd.open().length > 50, `${crowd.open().length} may stay`)
      t.ok((await openFiles(serving)) < 512)
      // Accepted clients are served, including their upstream connections.
      let text = ''
      first?.on('data', (chunk) => {
        text += chunk.toString()
      })
      first?.write(`GET ${path} HTTP/1.1\r\nHost: h\r\n\r\n`)
      await until(() => text.endsWith('ok'), 'an answer')
      // The system connects a client before the gateway takes it or turns it away.
      await until(async () => {
        const dropped = await readMetric(serving, 'sallyport_connections_dropped_total')
        return dropped['listener="public",reason="limit"'] === 2_000 - crowd.open().length
      }, 'that each client is counted')
      await crowd.leave()
    })
    t.ok(beats > 0)
    await checkAsBefore(t, serving, before)
    const linesOfIt = () => serving.log().filter(({ msg }) => /connections refused/.test(msg))
    await until(() => linesOfIt().length > 0, 'the line of the log')
    serving.child.kill('SIGTERM')
    await serving.ended
    t.equal(linesOfIt().length, 1, 'and not a line for each')
  },
)

t.test('with 512 descriptors', { skip }, async (t) => {
  const { url, held, release } = await startUpstream(t)
  const serving = await startServing(t, { upstream: url, descriptors: 512 })
  const before = await openFiles(serving)

  await t.test('clients that all keep an upstream busy leave descriptors for the admin listener', async (t) => {
    await watchHealth(serving, async () => {
      const crowd = await gatherThrong(t, serving.public, 1_000)
      for (const socket of crowd.open()) socket.write(`GET ${path}?held HTTP/1.1\r\nHost: h\r\n\r\n`)
      await until(() => held.length >= crowd.open().length, 'all of them at the upstream')
      release()
      await crowd.leave()
    })
    await checkAsBefore(t, serving, before)
  })

  await t.test('requests in a row on one connection leave descriptors for the admin listener', async (t) => {
    await watchHealth(serving, async () => {
      const crowd = await gatherThrong(t, serving.public, 20)
      const row = `GET ${path}?held HTTP/1.1\r\nHost: h\r\n\r\n`.repeat(50)
      for (const socket of crowd.sockets) socket.write(row)
      await until(() => held.length === 20, 'one request of each connection')
      t.equal((await call(serving.public, { path })).status, 200, 'the others wait')
      t.equal(held.length, 20)
      t.ok((await openFiles(serving)) < 512)
      release()
      await crowd.leave()
    })
    await checkAsBefore(t, serving, before)
  })
})

t.test('limits are those of each worker', async (t) => {
  const { url } = await startUpstream(t)
  const listeners = Object.fromEntries(
    ['public', 'decision', 'admin'].map((name) => [name, { host: '127.0.0.1', port: 0, maxConnections: 5 }]),
  )
  const serving = await startGroup(t, { upstream: url, settings: { listeners } })
  t.equal((await readMetric(serving, 'sallyport_connections_limit'))['listener="public"'], 10)
  const crowd = await gatherThrong(t, serving.public, 50)
  await until(() => crowd.open().length <= 10, 'that the others are turned away')
  t.ok(crowd.open().length >= 5)
  t.equal(await health(serving), 200)
})

t.test('the start warns of a configured limit that the descriptors do not allow', { skip }, async (t) => {
  const { url } = await startUpstream(t)
  const place = { host: '127.0.0.1', port: 0 }
  const listeners = { public: { ...place, maxConnections: 5_000 }, decision: place, admin: place }
  const serving = await startServing(t, { upstream: url, descriptors: 4_096, settings: { listeners } })
  serving.child.kill('SIGTERM')
  t.equal(await serving.ended, 0)
  const warnings = serving.log().filter(({ msg }) => /connection limit lowered/.test(msg))
  t.match(warnings, [{ level: 'warn', listener: 'public', wanted: 5_000, maxConnections: Number, descriptors: 4_096 }])
  t.equal(warnings.length, 1, 'listeners without a limit of their own cause no warning')
})

// An ALB keeps idle connections for 60 s, Go and Traefik for 90 s. A server that closes first answers some requests by a
// reset, which the proxy makes a 502.
t.test('an idle connection outlives those of usual proxies, or as long as its listener says', async (t) => {
  const { url } = await startUpstream(t)
  const settings = {
    routes: [openRoute],
    upstreams: { platform: { url } },
  }
  const keepAlives = async (gateway: Awaited<ReturnType<typeof startTestGateway>>) => {
    const clients = await Promise.all(
      [gateway.public, gateway.decision, gateway.admin].map((origin) => openRawClient(t, origin)),
    )
    const told: (string | undefined)[] = []
    for (const client of clients) {
      client.send('GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n')
      told.push(/^keep-alive: (.*)\r$/im.exec(await client.until(/\r\n\r\n/))?.[1])
    }
    return { clients, told }
  }
  const usual = await keepAlives(await startTestGateway(t, settings))
  t.same(usual.told, ['timeout=95', 'timeout=95', 'timeout=95'])
  const listeners = {
    public: { host: '127.0.0.1', port: 0, keepAliveMs: 1_500 },
    decision: { host: '127.0.0.1', port: 0, keepAliveMs: 620_000 },
    admin: { host: '127.0.0.1', port: 0 },
  }
  const { clients, told } = await keepAlives(await startTestGateway(t, { ...settings, settings: { listeners } }))
  t.same(told, ['timeout=1', 'timeout=620', 'timeout=95'])
  const startedMs = performance.now()
  await clients[0]?.closed()
  t.ok(performance.now() - startedMs > 500, 'not before its time')
  t.notOk(clients[1]?.socket.closed, 'the other stays')
})
