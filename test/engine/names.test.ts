import { createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import type { UpstreamResponse } from '../../gateway/engine/engine.ts'
import { type AskNames, createNames, type Names } from '../../gateway/engine/names.ts'
import { engines } from '../support/engine.ts'
import { until } from '../support/gateway.ts'

/** Names as the test says, by a clock of its own. */
function fakeNames(answers: Record<string, readonly string[] | undefined>) {
  const asked: string[] = []
  let nowMs = 0
  const ask: AskNames = (name, answer) => {
    asked.push(name)
    const addresses = answers[name]
    setImmediate(() =>
      addresses
        ? answer(
            null,
            addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
          )
        : answer(Object.assign(new Error('not found'), { code: 'ENOTFOUND' }), []),
    )
  }
  const names = createNames({ cacheMs: 5_000, ask, monotonicMs: () => nowMs })
  return {
    names,
    asked,
    pass: (ms: number) => {
      nowMs += ms
    },
  }
}

const look = ({ lookup }: Names, name: string): Promise<readonly string[]> =>
  new Promise((resolve, reject) => {
    lookup(name, { all: true }, (error, addresses) => {
      if (error) reject(error)
      else resolve((addresses as readonly { address: string }[]).map(({ address }) => address))
    })
  })

t.test('an answer is good for its time, and those who ask at once ask once', async (t) => {
  const { names, asked, pass } = fakeNames({ a: ['192.0.2.1'] })
  await Promise.all([look(names, 'a'), look(names, 'a')])
  t.equal(asked.length, 1)
  pass(4_999)
  await look(names, 'a')
  t.equal(asked.length, 1)
  pass(1)
  await look(names, 'a')
  t.equal(asked.length, 2)
})

t.test('connections are shared out over the addresses of the family that the system prefers', async (t) => {
  const { names } = fakeNames({ a: ['192.0.2.1', '192.0.2.2', '2001:db8::1'] })
  t.same(await look(names, 'a'), ['192.0.2.1', '192.0.2.2', '2001:db8::1'])
  t.same(await look(names, 'a'), ['192.0.2.2', '192.0.2.1', '2001:db8::1'])
  t.same(await look(names, 'a'), ['192.0.2.1', '192.0.2.2', '2001:db8::1'])
})

t.test('a name that cannot be resolved is an error, but its last addresses go on', async (t) => {
  const answers: Record<string, readonly string[] | undefined> = { a: ['192.0.2.1'] }
  const { names, pass } = fakeNames(answers)
  await t.rejects(look(names, 'b'), { code: 'ENOTFOUND' })
  await look(names, 'a')
  answers.a = undefined
  pass(60_000)
  t.same(await look(names, 'a'), ['192.0.2.1'])
  t.equal(names.holds('a', '192.0.2.1'), true)
})

t.test('changes are counted, and looked for without holding anybody up', async (t) => {
  const answers: Record<string, readonly string[] | undefined> = { a: ['192.0.2.1', '192.0.2.2'] }
  const { names, pass } = fakeNames(answers)
  await look(names, 'a')
  answers.a = ['192.0.2.2', '192.0.2.1']
  pass(6_000)
  names.countChanges('a')
  await new Promise((resolve) => setTimeout(resolve, 20))
  t.equal(names.countChanges('a'), 0, 'another order is no change')
  answers.a = ['192.0.2.2']
  pass(6_000)
  t.equal(names.countChanges('a'), 0, 'known a moment later')
  await until(() => names.countChanges('a') === 1, 'the news')
  t.same([names.holds('a', '192.0.2.1'), names.holds('a', '192.0.2.2')], [false, true])
})

t.test('the system is asked as it is, /etc/hosts included', async (t) => {
  const names = createNames({ cacheMs: 1_000 })
  const addresses = await look(names, 'localhost')
  t.ok(addresses.includes('127.0.0.1') || addresses.includes('::1'))
})

/** One port on several addresses of loopback; each answers with its own. */
async function startPlaces(t: Test, hosts: readonly string[]) {
  let port = 0
  const sockets: Socket[] = []
  for (const host of hosts) {
    const server = createServer((socket) => {
      sockets.push(socket)
      socket.on('error', () => {})
      socket.on('data', () => socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${host.length}\r\n\r\n${host}`))
    })
    await new Promise<void>((resolve) => server.listen(port, host, resolve))
    port = (server.address() as { port: number }).port
    t.teardown(() => server.close())
  }
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })
  return { port, sockets }
}

const skip = process.platform === 'linux' ? false : 'all of 127.0.0.0/8 is loopback on Linux'

for (const name of ['node', 'wire'] as const)
  t.test(`upstreams by name, on the engine ${name}`, { skip }, async (t) => {
    const ask = async (names: Names, port: number) => {
      const engine = engines[name](Number.POSITIVE_INFINITY, names)
      t.teardown(() => engine.close())
      return async (isFreshConnection = false): Promise<string> => {
        const answer = (await engine.send({
          origin: `http://backend.test:${port}`,
          method: 'GET',
          path: '/',
          headers: [],
          body: undefined,
          asksForWebSocket: false,
          bodyLimitBytes: 0,
          timeouts: { connectMs: 2_000, firstByteMs: 2_000, idleMs: 2_000 },
          isFreshConnection,
          onCancellable: () => undefined,
        })) as UpstreamResponse
        let text = ''
        await new Promise<void>((resolve, reject) =>
          answer.pipe({
            data: (chunk) => {
              text += Buffer.from(chunk).toString()
              return true
            },
            end: resolve,
            fail: reject,
          }),
        )
        // undici takes a connection back at the end of a turn.
        await new Promise((resolve) => setImmediate(resolve))
        return text
      }
    }

    await t.test('a name that leads elsewhere is followed, also by who keeps connections busy', async (t) => {
      const { port, sockets } = await startPlaces(t, ['127.0.0.2', '127.0.0.3'])
      const answers: Record<string, readonly string[] | undefined> = { 'backend.test': ['127.0.0.2'] }
      const { names, pass } = fakeNames(answers)
      const send = await ask(names, port)
      t.same([await send(), await send()], ['127.0.0.2', '127.0.0.2'])
      t.equal(sockets.length, 1)
      answers['backend.test'] = ['127.0.0.3']
      t.equal(await send(), '127.0.0.2', 'the answer is still good')
      pass(6_000)
      await until(async () => (await send()) === '127.0.0.3', 'the new address')
      await until(() => sockets[0]?.destroyed || sockets[0]?.readableEnded, 'the end of the kept connection')
      answers['backend.test'] = undefined
      pass(6_000)
      t.equal(await send(), '127.0.0.3', 'a name server that is down takes nothing away')
    })

    await t.test('an address that refuses is passed over, and all that serve get connections', async (t) => {
      const { port } = await startPlaces(t, ['127.0.0.3', '127.0.0.4'])
      const { names } = fakeNames({ 'backend.test': ['127.0.0.2', '127.0.0.3', '127.0.0.4'] })
      const send = await ask(names, port)
      const seen = new Set<string>()
      for (let count = 0; count < 6; count++) seen.add(await send(true))
      t.same([...seen].sort(), ['127.0.0.3', '127.0.0.4'])
    })

    await t.test('a name without an address is an upstream that cannot be reached', async (t) => {
      const send = await ask(fakeNames({}).names, 1)
      t.match(await send().catch((error: unknown) => error), { fault: 'unreachable' })
    })
  })
