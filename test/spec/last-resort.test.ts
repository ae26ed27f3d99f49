import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { startRawUpstream, until } from '../support/gateway.ts'
import { isAlive, startServing } from '../support/serve.ts'
import { pidOf, readiness, startGroup, visitBoth, workersOf } from '../support/workers.ts'

/** `/status` is public: it needs neither a database nor an issuer. */
const path = '/status'

/** On a signal it throws where no handler catches. */
const preload = `
  const plant = () => { throw new TypeError('planted, with oat_MTI.c2VjcmV0 and postgres://user:hunter2@db/x') }
  process.on('SIGUSR2', () => setImmediate(plant))
  process.on('SIGWINCH', () => { void (async () => plant())() })
`

async function startHeldUpstream(t: Test) {
  const held: (() => void)[] = []
  const upstream = await startRawUpstream(t, (socket) => {
    held.push(() => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'))
  })
  return { url: upstream.url, held, release: () => held.splice(0).map((answer) => answer()) }
}

for (const [fault, signal] of [
  ['exception', 'SIGUSR2'],
  ['rejection', 'SIGWINCH'],
] as const) {
  t.test(`an uncaught ${fault} is told with its place, what is under way ends well, and the exit is 1`, async (t) => {
    const upstream = await startHeldUpstream(t)
    const serving = await startServing(t, {
      upstream: upstream.url,
      preload,
      settings: { drain: { delayMs: 60_000, timeoutMs: 60_000 } },
    })
    const underWay = call(serving.public, { path })
    await until(() => upstream.held.length === 1, 'the request at the upstream')
    serving.child.kill(signal)
    await until(() => serving.log().some(({ level }) => level === 'fatal'), 'the line of the fault')
    t.equal((await readiness(serving)).status, 503)
    await t.rejects(call(serving.public, { path }), 'nothing new is taken')
    upstream.release()
    t.match(await underWay, { status: 200, text: 'ok' })
    t.equal(await serving.ended, 1)
    const faults = serving.log().filter(({ level }) => level === 'fatal')
    t.match(faults, [{ error: { name: 'TypeError', message: /^planted/, stack: /^ {4}at .*preload\.cjs/ } }])
    t.equal(faults.length, 1)
    t.notMatch(serving.stdout() + serving.stderr(), /oat_|hunter2/)
    t.ok(
      serving.log().some(({ msg }) => msg === 'stopped'),
      'and the log is whole',
    )
  })
}

t.test('a second fault ends the process at once', async (t) => {
  const upstream = await startHeldUpstream(t)
  const serving = await startServing(t, { upstream: upstream.url, preload })
  const underWay = call(serving.public, { path }).catch(() => 'broken')
  await until(() => upstream.held.length === 1, 'the request at the upstream')
  serving.child.kill('SIGUSR2')
  await until(() => serving.log().some(({ level }) => level === 'fatal'), 'the line of the fault')
  serving.child.kill('SIGUSR2')
  t.equal(await serving.ended, 1)
  t.equal(await underWay, 'broken')
})

t.test('a request that does not end in time after a fault is cut', async (t) => {
  const upstream = await startHeldUpstream(t)
  const serving = await startServing(t, { upstream: upstream.url, preload })
  const underWay = call(serving.public, { path }).catch(() => 'broken')
  await until(() => upstream.held.length === 1, 'the request at the upstream')
  serving.child.kill('SIGUSR2')
  // A stop request under way must not hide the fault's exit code.
  serving.child.kill('SIGTERM')
  t.equal(await serving.ended, 1)
  t.equal(await underWay, 'broken')
})

t.test('a worker that ends by a fault is replaced, and the group stays ready', async (t) => {
  const upstream = await startHeldUpstream(t)
  const serving = await startGroup(t, { upstream: upstream.url, preload })
  await visitBoth(serving)
  const underWay = Promise.all(Array.from({ length: 8 }, () => call(serving.public, { path })))
  await until(() => upstream.held.length === 8, 'the requests at the upstream')
  const faulty = pidOf(serving, 1)
  process.kill(faulty, 'SIGUSR2')
  await until(() => serving.log().some(({ level, worker }) => level === 'fatal' && worker === 1), 'the fault')
  const { checks } = await readiness(serving)
  t.match(checks, { policy: 'ok', draining: 'ok', workers: 'ok' })
  t.equal((await call(serving.public, { path: '/nowhere' })).status, 404)
  upstream.release()
  t.ok((await underWay).every(({ status }) => status === 200))
  await until(() => workersOf(serving).get(1) !== faulty, 'another worker', 60_000)
  t.equal(isAlive(faulty), false)
  await until(
    () => serving.log().some(({ msg, code }) => msg === 'worker died; another starts' && code === 1),
    'a line of the log',
  )
  await visitBoth(serving)
})
