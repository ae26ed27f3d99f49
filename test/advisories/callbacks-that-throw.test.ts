// In a process of its own: it listens to uncaught exceptions.
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { hearFaults } from '../../gateway/base/fault/guarded.ts'
import { UnorderedList } from '../../gateway/base/lib/unordered-list.ts'
import { MessageParser } from '../../gateway/http/parser/message-parser.ts'
import { ClientConnection } from '../../gateway/http/server/client-connection.ts'
import { Http1Exchange } from '../../gateway/http/server/exchange.ts'
import { PipelinedBytes } from '../../gateway/http/server/pipelined-bytes.ts'
import { BatchedWriter } from '../../gateway/http/socket/batched-writer.ts'
import { RequestCycle } from '../../gateway/http/upstream/request-cycle.ts'
import { ResponseStream } from '../../gateway/http/upstream/response.ts'
import { call } from '../support/client.ts'
import { openRawClient, openRoute, startRawUpstream, startTestGateway, until } from '../support/gateway.ts'

type Methods = Record<string, (...given: readonly unknown[]) => unknown>

/** Has a method of a class throw, from the next call on, until the test is over; gives how to end that. */
function spoil(t: Test, prototype: object, name: string): () => void {
  const methods = prototype as Methods
  const before = methods[name]
  if (!before) throw new Error(`there is no ${name}`)
  methods[name] = () => {
    throw new TypeError('planted')
  }
  const mend = (): void => {
    methods[name] = before
  }
  t.teardown(mend)
  return mend
}

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: h\r\n\r\n`

/** An upstream that answers what ends, begins what lasts, and says nothing where it is asked to. */
const answer = (socket: Socket, soFar: string): void => {
  if (!soFar.endsWith('\r\n\r\n')) return
  if (soFar.includes('GET /silent')) return
  if (soFar.includes('GET /large'))
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n${'x'.repeat(5e7)}`)
  else if (soFar.includes('GET /half')) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf')
  else if (soFar.includes('GET /bye')) socket.end('HTTP/1.1 200 OK\r\n\r\nbye')
  else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nseen')
}

type Timeouts = Readonly<{ headersMs?: number; firstByteMs?: number }>

async function start(t: Test, timeouts: Timeouts = {}) {
  const upstream = await startRawUpstream(t, answer)
  const gateway = await startTestGateway(t, {
    routes: [openRoute],
    upstreams: { platform: { url: upstream.url } },
    settings: { timeouts },
  })
  const readMetrics = async (): Promise<string> => (await fetch(`${gateway.admin}/metrics`)).text()
  const countUpstream = async (): Promise<number> =>
    Number(/^sallyport_upstream_connections_open\{origin="[^"]*"\} (\d+)$/m.exec(await readMetrics())?.[1] ?? 0)
  const faults = async (): Promise<Readonly<Record<string, number>>> => {
    const lines = (await readMetrics()).matchAll(/^sallyport_callback_errors_total\{component="(\w+)"\} (\d+)$/gm)
    return Object.fromEntries([...lines].map(([, component, count]) => [component, Number(count)]))
  }
  return { upstream, gateway, faults, countUpstream }
}

type Running = Awaited<ReturnType<typeof start>>
type Client = Awaited<ReturnType<typeof openRawClient>>

type Place = Readonly<{
  prototype: object
  method: string
  component: string
  /** Short ones where the fault is in a time-out alone: elsewhere a busy machine would run into them. */
  timeouts?: Timeouts
  /** Leads to it; the method throws from its beginning on. */
  lead: (client: Client, running: Running) => unknown
  /** Before the method throws. */
  prepare?: (client: Client, running: Running) => unknown
}>

const places: Readonly<Record<string, Place>> = {
  'bytes of a client': {
    ...{ prototype: MessageParser.prototype, method: 'execute', component: 'client' },
    lead: (client) => client.send(get('/x')),
  },
  'a callback of the parser': {
    ...{ prototype: MessageParser.prototype, method: 'onHead', component: 'client' },
    lead: (client) => client.send(get('/x')),
  },
  'a client that ends its side': {
    ...{ prototype: BatchedWriter.prototype, method: 'flush', component: 'client' },
    lead: (client) => client.socket.end(),
  },
  'a client that has gone': {
    ...{ prototype: Http1Exchange.prototype, method: 'abandon', component: 'client' },
    prepare: async (client, { upstream }) => {
      client.send(get('/silent'))
      await until(() => upstream.received().some((bytes) => bytes.includes('/silent')), 'the request')
    },
    lead: (client) => client.socket.destroy(),
  },
  'a client that reads again': {
    ...{ prototype: Http1Exchange.prototype, method: 'goOn', component: 'client' },
    prepare: async (client) => {
      client.socket.pause()
      client.send(get('/large'))
      await new Promise((resolve) => setTimeout(resolve, 200))
    },
    lead: (client) => client.socket.resume(),
  },
  'a request that was read ahead': {
    ...{ prototype: PipelinedBytes.prototype, method: 'take', component: 'client' },
    lead: (client) => client.send(get('/x') + get('/y')),
  },
  'an answer that has left': {
    ...{ prototype: ClientConnection.prototype, method: 'responseSent', component: 'client' },
    lead: (client) => client.send(get('/x')),
  },
  'a connection that is accepted': {
    ...{ prototype: UnorderedList.prototype, method: 'add', component: 'listener' },
    lead: async (_client, { gateway }) => {
      const another = await openRawClient({ teardown: () => undefined }, gateway.public)
      await another.closed()
    },
  },
  'the end of a turn': {
    ...{ prototype: BatchedWriter.prototype, method: 'flush', component: 'timer' },
    lead: (client) => client.send(get('/x')),
  },
  'a time-out of a client': {
    ...{ prototype: ClientConnection.prototype, method: 'write', component: 'timer' },
    timeouts: { headersMs: 1_500 },
    lead: (client) => client.send('GET /x HT'),
  },
  'a connection to an upstream that opens': {
    ...{ prototype: RequestCycle.prototype, method: 'start', component: 'upstream' },
    prepare: async (_client, { upstream, countUpstream }) => {
      for (const socket of upstream.sockets()) socket.destroy()
      await until(async () => (await countUpstream()) === 0, 'no connection that is kept')
    },
    lead: (client) => client.send(get('/x')),
  },
  'bytes of an upstream': {
    ...{ prototype: RequestCycle.prototype, method: 'read', component: 'upstream' },
    lead: (client) => client.send(get('/x')),
  },
  'an upstream that ends its side': {
    ...{ prototype: RequestCycle.prototype, method: 'end', component: 'upstream' },
    lead: (client) => client.send(get('/bye')),
  },
  'a connection to an upstream that has gone': {
    ...{ prototype: RequestCycle.prototype, method: 'close', component: 'upstream' },
    prepare: async (client, { upstream }) => {
      client.send(get('/half'))
      await until(() => client.text().endsWith('half') && upstream.sockets().length > 0, 'half an answer')
    },
    lead: (_client, { upstream }) => {
      for (const socket of upstream.sockets()) socket.resetAndDestroy()
    },
  },
  'a time-out of an upstream': {
    ...{ prototype: ResponseStream.prototype, method: 'fail', component: 'timer' },
    timeouts: { firstByteMs: 1_500 },
    lead: (client) => client.send(get('/silent')),
  },
}

for (const [name, { prototype, method, component, timeouts, prepare, lead }] of Object.entries(places))
  t.test(`a fault in ${name} ends no more than its own connection`, async (t) => {
    const running = await start(t, timeouts)
    const { gateway, faults } = running
    const uncaught: unknown[] = []
    const hear = (error: unknown): number => uncaught.push(error)
    process.on('uncaughtException', hear)
    t.teardown(() => process.off('uncaughtException', hear))
    const heard = new Set<string>()
    t.teardown(hearFaults((from) => heard.add(from)))
    const other = await openRawClient(t, gateway.public)
    other.send(get('/x'))
    await other.until(/seen$/)
    const client = await openRawClient(t, gateway.public)
    await prepare?.(client, running)
    const mend = spoil(t, prototype, method)
    await lead(client, running)
    await until(() => heard.has(component), 'the fault')
    mend()
    t.ok(((await faults())[component] ?? 0) >= 1, 'it is counted')
    other.send(get('/x'))
    await other.until(/seen[\s\S]+seen$/)
    t.equal((await call(gateway.public, { path: '/x' })).status, 200)
    t.same(uncaught, [])
  })
