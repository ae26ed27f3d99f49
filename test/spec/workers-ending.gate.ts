import { once } from 'node:events'
import { createServer } from 'node:net'
import t from 'tap'
import { call } from '../support/client.ts'
import { openRawClient, startRawUpstream, until } from '../support/gateway.ts'
import { isAlive, runServe, type Serving, signalGroup, startServing } from '../support/serve.ts'
import { nowhere, readiness, startGroup, workersOf } from '../support/workers.ts'

const skip = process.platform === 'linux' ? false : 'looks at processes by /proc'

t.test('SIGTERM: unready at once, still accepting, finishing what is in flight, out with 0', { skip }, async (t) => {
  const upstream = await startRawUpstream(t, () => {})
  const settings = { drain: { delayMs: 4_000, timeoutMs: 5_000 } }
  const serving = await startGroup(t, { upstream: upstream.url, settings })
  const workers = [...workersOf(serving).values()]
  const clients = await Promise.all(Array.from({ length: 6 }, () => openRawClient(t, serving.public)))
  for (const client of clients) client.send('GET /status HTTP/1.1\r\nHost: h\r\n\r\n')
  await until(() => upstream.sockets().length === 6, 'the requests at the upstream')

  serving.child.kill('SIGTERM')
  // Service managers signal every process, and workers leave it to the primary.
  for (const pid of workers) process.kill(pid, 'SIGTERM')
  await until(async () => (await readiness(serving)).status === 503, 'unreadiness', 2_000)
  t.equal((await call(serving.public, nowhere)).status, 404, 'still accepting')
  await until(
    () =>
      call(serving.public, nowhere).then(
        () => false,
        (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED',
      ),
    'the end of accepting',
  )
  for (const socket of upstream.sockets()) socket.end('HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nfinished')
  for (const client of clients) t.match(await client.until(/finished$/), /^HTTP\/1\.1 200 /)
  t.equal(await serving.ended, 0)
  t.same(workers.filter(isAlive), [])
})

t.test('Ctrl-C, which every process of the group hears, ends it like one process', { skip }, async (t) => {
  const upstream = await startRawUpstream(t, (socket) => {
    setTimeout(() => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nfinished'), 300)
  })
  const serving = await startGroup(t, { upstream: upstream.url })
  const workers = [...workersOf(serving).values()]
  const client = await openRawClient(t, serving.public)
  client.send('GET /status HTTP/1.1\r\nHost: h\r\n\r\n')
  await until(() => upstream.sockets().length === 1, 'the request at the upstream')
  signalGroup(serving.pid, 'SIGINT')
  t.match(await client.until(/finished$/), /^HTTP\/1\.1 200 /)
  t.equal(await serving.ended, 0)
  t.same(workers.filter(isAlive), [])
})

t.test('a second signal ends everything at once', { skip }, async (t) => {
  const serving = await startGroup(t, { settings: { drain: { delayMs: 60_000, timeoutMs: 60_000 } } })
  const workers = [...workersOf(serving).values()]
  serving.child.kill('SIGTERM')
  await until(() => serving.stdout().includes('draining'), 'the drain')
  serving.child.kill('SIGTERM')
  t.equal(await serving.ended, 1)
  // A killed process exists until the kernel has run it once more.
  await until(() => !workers.some(isAlive), 'the end of the workers', 2_000)
})

t.test('workers do not outlive their primary, nor the group its parent', { skip }, async (t) => {
  const ends: Readonly<Record<string, (serving: Serving) => void>> = {
    'a primary that is killed': ({ child }) => void child.kill('SIGKILL'),
    'a parent that is gone': ({ child }) => child.disconnect(),
  }
  for (const [what, end] of Object.entries(ends)) {
    const serving = await startGroup(t)
    const workers = [...workersOf(serving).values()]
    t.equal(workers.filter(isAlive).length, 2)
    end(serving)
    await serving.ended
    await until(() => !workers.some(isAlive), `the end of the workers after ${what}`)
  }
})

const inWorkers = (script: string): string => `if (process.env.SALLYPORT_ASSIGNMENT) { ${script} }`

t.test('workers that die at their start are given up, with 1 and a message', async (t) => {
  const preload = inWorkers('process.kill(process.pid, "SIGKILL")')
  const serve = runServe(t, { preload, settings: { workers: 2 } })
  t.equal(await serve.ended, 1)
  t.match(serve.stderr(), /^sallyport: worker [12] ended 5 times soon after its start \(SIGKILL\)\n$/)
  const deaths = serve.log().filter(({ msg }) => msg.startsWith('worker died'))
  t.ok(deaths.length >= 5 && deaths.length <= 10, `${deaths.length} deaths`)
})

t.test('a configuration that only workers find at fault is told once, with 2', async (t) => {
  const preload = inWorkers('require("node:fs").rmSync("identity.pem", { force: true })')
  const serve = runServe(t, { preload, settings: { workers: 2 } })
  t.equal(await serve.ended, 2)
  t.match(serve.stderr(), /^sallyport: gateway\.yaml:1:\d+: file .*identity\.pem cannot be read: ENOENT .*\n$/)
})

t.test('a configuration at fault is told once, with 2, before any worker starts', async (t) => {
  const preload = inWorkers('process.stderr.write("a worker")')
  const settings = { workers: 2, policies: { directory: 'no-such-directory' } }
  const serve = runServe(t, { preload, settings })
  t.equal(await serve.ended, 2)
  t.match(serve.stderr(), /^sallyport: .*no-such-directory: cannot be read: ENOENT .*\n$/)
  t.equal(serve.stdout(), '')
})

t.test('a taken port is told once, with 1', async (t) => {
  const squatter = createServer().listen(0, '127.0.0.1')
  t.teardown(() => squatter.close())
  await once(squatter, 'listening')
  const address = squatter.address()
  const taken = { host: '127.0.0.1', port: typeof address === 'object' ? address?.port : 0 }
  const free = { host: '127.0.0.1', port: 0 }
  const serve = runServe(t, { settings: { workers: 2, listeners: { public: taken, decision: free, admin: free } } })
  t.equal(await serve.ended, 1)
  t.match(
    serve.stderr(),
    new RegExp(
      `^sallyport: gateway\\.yaml:1:\\d+: listeners\\.public\\.port: .*:${taken.port} is taken by another program; .*\\n$`,
    ),
  )
})

/** Signals the process as soon as it has a handler, long before it serves. */
const signalEarly = (signal: string): string =>
  `if (!process.env.SALLYPORT_ASSIGNMENT) process.on('newListener', function tell(name) {
    if (name !== '${signal}') return
    process.off('newListener', tell)
    process.stdout.write('{"msg":"signalled"}\\n')
    setImmediate(() => process.kill(process.pid, '${signal}'))
  })`

for (const workers of [1, 2]) {
  for (const signal of ['SIGTERM', 'SIGINT'])
    t.test(`${signal} before the gateway serves ends ${workers} workers with 0`, async (t) => {
      const serve = runServe(t, { preload: signalEarly(signal), settings: { workers } })
      // On a busy machine it may still read its modules after a second, and then a signal ends it.
      t.ok([0, null].includes(await serve.ended))
      // The start goes on until the last lines are written: it may still report a missing database, or that it listens.
      const messages = serve.log().map(({ msg }) => msg)
      t.equal(messages[0], 'signalled')
      t.same(
        messages.filter((message) => ['draining', 'stopped'].includes(message)),
        [],
      )
      t.equal(serve.stderr(), '')
    })

  t.test(`SIGHUP before the gateway serves is heard by ${workers} workers once they do`, async (t) => {
    const serve = await startServing(t, { preload: signalEarly('SIGHUP'), settings: { workers } })
    const isReloaded = () => serve.log().filter(({ msg }) => msg === 'reload requested').length
    await until(() => isReloaded() === workers, 'the reload')
    t.equal(serve.log()[0]?.msg, 'signalled')
    serve.child.kill('SIGTERM')
    t.equal(await serve.ended, 0)
  })
}
