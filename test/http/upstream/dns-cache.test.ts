import dns from 'node:dns'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { createEngine } from '../../../gateway/http/create-engine.ts'
import type { UpstreamResponse } from '../../../gateway/http/engine.ts'
import { createDnsCache, type DnsCache, lookUpEverywhere } from '../../../gateway/http/upstream/dns-cache.ts'
import { createResolver, type ResolveName } from '../../../gateway/http/upstream/resolver.ts'
import { passTurn, until } from '../../support/gateway.ts'

/** Names as the test says, by a clock of its own. */
function fakeNames(answers: Record<string, readonly string[] | undefined>) {
  const asked: string[] = []
  let nowMs = 0
  const ask: ResolveName = (name, answer) => {
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
  const names = createDnsCache({ cacheMs: 5_000, resolver: createResolver(ask), monotonicMs: () => nowMs })
  return {
    names,
    asked,
    pass: (ms: number) => {
      nowMs += ms
    },
  }
}

const look = ({ lookup }: DnsCache, name: string): Promise<readonly string[]> =>
  new Promise((resolve, reject) => {
    lookup(name, { all: true }, (error, addresses) => {
      if (error) reject(error)
      else resolve((addresses as readonly { address: string }[]).map(({ address }) => address))
    })
  })

t.test('an answer is good for its time, and callers at the same time share a lookup', async (t) => {
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
  t.equal(names.includes('a', '192.0.2.1'), true)
})

t.test('changes are counted, and looked for without delaying a request', async (t) => {
  const answers: Record<string, readonly string[] | undefined> = { a: ['192.0.2.1', '192.0.2.2'] }
  const { names, pass } = fakeNames(answers)
  await look(names, 'a')
  answers.a = ['192.0.2.2', '192.0.2.1']
  pass(6_000)
  names.versionOf('a')
  await new Promise((resolve) => setTimeout(resolve, 20))
  t.equal(names.versionOf('a'), 0, 'another order is no change')
  answers.a = ['192.0.2.2']
  pass(6_000)
  t.equal(names.versionOf('a'), 0, 'known a moment later')
  await until(() => names.versionOf('a') === 1, 'the news')
  t.same([names.includes('a', '192.0.2.1'), names.includes('a', '192.0.2.2')], [false, true])
})

// A lookup of the system keeps the process alive; one of the test's does not.
const alive = setInterval(() => undefined, 1_000)
t.teardown(() => clearInterval(alive))

/** A name server that answers some names, and is silent about others until it is told what to say. */
function silentNames(options: Partial<Parameters<typeof createDnsCache>[0]> = {}, slots = 2) {
  const answers = new Map<string, readonly string[]>()
  const pending: [name: string, answer: Parameters<ResolveName>[1]][] = []
  const asked: string[] = []
  const state: (readonly [name: string, failure: string | undefined])[] = []
  let nowMs = 0
  const toAddresses = (texts: readonly string[]) => texts.map((address) => ({ address, family: 4 }))
  const resolver = createResolver((name, answer) => {
    asked.push(name)
    const known = answers.get(name)
    if (known) setImmediate(() => answer(null, toAddresses(known)))
    else pending.push([name, answer])
  }, slots)
  const shared = { cacheMs: 5_000, timeoutMs: 30, resolver, monotonicMs: () => nowMs }
  const names = createDnsCache({ ...shared, onState: (...told) => void state.push(told), ...options })
  const release = (error?: string): void => {
    for (const [name, answer] of pending.splice(0))
      if (error === undefined) answer(null, toAddresses(answers.get(name) ?? []))
      else answer(Object.assign(new Error(error), { code: error }), [])
  }
  return {
    names,
    answers,
    asked,
    state,
    release,
    pass: (ms: number) => {
      nowMs += ms
    },
  }
}

t.test('with a silent name server the last addresses go on at once', async (t) => {
  const { names, answers, asked, state, pass, release } = silentNames()
  answers.set('a', ['192.0.2.1'])
  await look(names, 'a')
  answers.delete('a')
  pass(6_000)
  t.same(await look(names, 'a'), ['192.0.2.1'], 'after a short wait for a newer answer')
  await until(() => state.length === 1, 'the time-out')
  for (let count = 0; count < 500; count++) t.same(await look(names, 'a'), ['192.0.2.1'])
  t.same(asked, ['a', 'a'], 'one lookup is under way, however many connections are opened')
  t.same(state, [['a', 'ETIMEOUT']], 'told once')
  pass(50_000)
  t.equal(names.oldestStaleMs(), 56_000)
  release('EAI_AGAIN')
  answers.set('a', ['192.0.2.2'])
  pass(6_000)
  await look(names, 'a')
  await until(async () => (await look(names, 'a'))[0] === '192.0.2.2', 'the new address')
  t.same(state.at(-1), ['a', undefined])
  t.equal(names.oldestStaleMs(), 0)
})

t.test('a slow lookup is waited for once, and not by each connection', async (t) => {
  const { names, answers, asked, pass } = silentNames({ timeoutMs: 60_000 })
  answers.set('a', ['192.0.2.1'])
  await look(names, 'a')
  answers.delete('a')
  pass(6_000)
  await look(names, 'a')
  for (let count = 0; count < 3; count++) {
    const later = new Promise((resolve) => setImmediate(() => setImmediate(resolve, 'later')))
    t.same(await Promise.race([look(names, 'a'), later]), ['192.0.2.1'], 'at once')
  }
  t.same(asked, ['a', 'a'])
})

t.test('a name server that is slow each time holds up the first connections alone', async (t) => {
  const { names, answers, asked, pass, release } = silentNames({ timeoutMs: 60_000 })
  const lookSoon = (): Promise<unknown> => {
    const later = new Promise((resolve) => setImmediate(() => setImmediate(resolve, 'later')))
    return Promise.race([look(names, 'a'), later])
  }
  answers.set('a', ['192.0.2.1'])
  await look(names, 'a')
  answers.delete('a')
  pass(6_000)
  t.equal(await lookSoon(), 'later')
  for (let count = 0; count < 3; count++) {
    await new Promise((resolve) => setTimeout(resolve, 100))
    // A stalled process has both timers due at once, and the gateway's work comes a turn later.
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
    answers.set('a', [`192.0.2.${count + 2}`])
    release()
    answers.delete('a')
    pass(6_000)
    t.same(await lookSoon(), [`192.0.2.${count + 2}`], 'the last addresses, which were late')
    t.same(await lookSoon(), [`192.0.2.${count + 2}`], 'while the next lookup is under way, too')
  }
  answers.set('a', ['192.0.2.9'])
  release()
  pass(6_000)
  t.same(await look(names, 'a'), ['192.0.2.9'], 'late once more')
  pass(6_000)
  await look(names, 'a')
  answers.set('a', ['192.0.2.10'])
  pass(6_000)
  t.same(await look(names, 'a'), ['192.0.2.10'], 'waited for again after an answer in time')
  t.equal(asked.length, 8)
})

t.test('while the name server answers, an old address is not used before it was asked', async (t) => {
  const { names, answers, pass } = silentNames()
  answers.set('a', ['192.0.2.1'])
  await look(names, 'a')
  answers.set('a', ['192.0.2.2'])
  pass(6_000)
  t.same(await look(names, 'a'), ['192.0.2.2'])
})

t.test('the first addresses of a name are waited for within the time-out, and then not waited for again', async (t) => {
  const { names, answers, asked, release } = silentNames()
  await t.rejects(look(names, 'a'), { code: 'ETIMEOUT' })
  await t.rejects(look(names, 'a'), { code: 'ETIMEOUT' }, 'at once: the same lookup is under way')
  t.same(asked, ['a'])
  answers.set('a', ['192.0.2.1'])
  release()
  t.same(await look(names, 'a'), ['192.0.2.1'], 'its late answer is good')
})

t.test('addresses end that were not confirmed for the longest time, on kept connections too', async (t) => {
  const { names, answers, pass, state } = silentNames({ maxStaleMs: 60_000 })
  answers.set('a', ['192.0.2.1'])
  await look(names, 'a')
  answers.delete('a')
  pass(59_999)
  t.same(await look(names, 'a'), ['192.0.2.1'])
  t.equal(names.includes('a', '192.0.2.1'), true)
  const changes = names.versionOf('a')
  pass(1)
  await until(() => state.length === 1, 'the time-out')
  await t.rejects(look(names, 'a'), { code: 'ETIMEOUT' })
  t.equal(names.includes('a', '192.0.2.1'), false)
  t.equal(names.versionOf('a'), changes + 1, 'idle connections are looked at')
})

t.test('a name that is never answered leaves a place for others', async (t) => {
  const { names, answers, asked, release, state } = silentNames()
  await Promise.all(['x', 'y'].map((name) => t.rejects(look(names, name), { code: 'ETIMEOUT' })))
  release('EAI_AGAIN')
  await Promise.all(['x', 'y'].map((name) => t.rejects(look(names, name), { code: 'ETIMEOUT' })))
  answers.set('own', ['192.0.2.1'])
  t.same(await look(names, 'own'), ['192.0.2.1'])
  t.same(asked, ['x', 'y', 'x', 'own'])
  t.equal(state.length, 2)
})

t.test('a socket without a lookup of its own uses the same cache', async (t) => {
  const { names, answers, asked } = silentNames()
  const server = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  answers.set('database.test', ['127.0.0.1'])
  const end = lookUpEverywhere(names)
  t.teardown(end)
  const socket = connect(port, 'database.test')
  await once(socket, 'connect')
  socket.destroy()
  t.same(asked, ['database.test'])
  const byFamily = await new Promise((resolve) => dns.lookup('database.test', 6, (error) => resolve(error?.code)))
  t.equal(byFamily, 'ENOTFOUND')
  const first = await new Promise((resolve) => dns.lookup('database.test', (_error, address) => resolve(address)))
  t.equal(first, '127.0.0.1')
  const literal = await new Promise((resolve) => dns.lookup('::1', {}, (_error, address) => resolve(address)))
  t.equal(literal, '::1')
  end()
  const unknown = await new Promise((resolve) => dns.lookup('database.test', (error) => resolve(error !== null)))
  t.equal(unknown, true, 'the system again')
})

t.test('the system is asked as it is, /etc/hosts included', async (t) => {
  const names = createDnsCache({ cacheMs: 1_000 })
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

t.test('upstreams by name', { skip }, async (t) => {
  const ask = async (names: DnsCache, port: number) => {
    const engine = createEngine({ names })
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
          end: () => resolve(),
          fail: reject,
        }),
      )
      return text
    }
  }

  await t.test('a name that leads elsewhere is followed, also by who keeps connections busy', async (t) => {
    const { port, sockets } = await startPlaces(t, ['127.0.0.2', '127.0.0.3'])
    const answers: Record<string, readonly string[] | undefined> = { 'backend.test': ['127.0.0.2'] }
    const { names, pass } = fakeNames(answers)
    const send = await ask(names, port)
    t.equal(await send(), '127.0.0.2')
    await passTurn()
    t.equal(await send(), '127.0.0.2')
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
