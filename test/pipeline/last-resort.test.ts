import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import type { UpstreamResponse } from '../../gateway/http/engine.ts'
import type { Stages } from '../../gateway/pipeline.ts'
import type { StartTimer } from '../../gateway/stages/relay/timer.ts'
import { call } from '../support/client.ts'
import { type FaultyOptions, type LoggedLine, startFaultyGateway } from '../support/faulty-gateway.ts'
import { openRawClient, openRoute, startRawUpstream, until } from '../support/gateway.ts'
import { chunkedHead, modelRoutes, readAnswer, responsesPath, toChunk } from '../support/streams.ts'

const secret = 'oat_MTI.c2VjcmV0c2VjcmV0'
const fail = (): never => {
  throw new TypeError(`planted, with ${secret} and postgres://user:hunter2@db/x`)
}

const event = 'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"id":"r"}}\n\n'

/** Answers `/held` when it is told to, streams an event on the model's paths, and the rest at once. */
async function startUpstream(t: Test) {
  const held: (() => void)[] = []
  const streams: Socket[] = []
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    const head = soFar.slice(soFar.lastIndexOf('\r\n\r\n', soFar.length - 5) + 1)
    if (!soFar.endsWith('\r\n\r\n')) return
    if (head.includes('/responses')) {
      streams.push(socket)
      socket.write(Buffer.concat([Buffer.from(chunkedHead), toChunk(event)]))
    } else if (head.includes('/held')) held.push(() => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nheld'))
    else if (head.includes('/large'))
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 30000000\r\n\r\n${'x'.repeat(3e7)}`)
    else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
  })
  return {
    upstream,
    release: () => held.splice(0).map((answer) => answer()),
    endStreams: () => streams.splice(0).map((socket) => socket.resetAndDestroy()),
  }
}

type Gateway = Awaited<ReturnType<typeof startFaultyGateway>>

/** A gateway whose named part fails for as long as it is armed. */
async function start(t: Test, spoil: Spoil, options: Partial<FaultyOptions> = {}) {
  const { upstream, ...controls } = await startUpstream(t)
  let isArmed = false
  const gateway = await startFaultyGateway(t, {
    routes: [...modelRoutes, openRoute],
    upstreams: { platform: { url: upstream.url }, agents: { url: upstream.url } },
    spoil: (stages) => spoil(stages, () => isArmed),
    ...options,
  })
  const arm = (armed = true): void => {
    isArmed = armed
  }
  return { gateway, upstream, ...controls, arm }
}

t.test('an unknown method or coding (501) is not an error in the log', async (t) => {
  const { gateway } = await start(t, () => ({}))
  for (const head of ['BREW /x HTTP/1.1\r\n', 'POST /x HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n']) {
    const client = await openRawClient(t, gateway.public)
    client.send(`${head}Host: h\r\n\r\n`)
    t.match(await client.closed(), /^HTTP\/1\.1 501 /)
  }
  t.same(
    gateway.lines.filter(({ level }) => level === 'error'),
    [],
  )
})

/** A request that began before the fault ends well after it, and so do those that come then. */
async function checkUnharmed(
  t: Test,
  { gateway, upstream, release, arm }: Awaited<ReturnType<typeof start>>,
  work: () => Promise<unknown>,
): Promise<void> {
  const bystander = call(gateway.public, { path: '/held' })
  await until(() => upstream.received().some((text) => text.includes('/held')), 'the bystander')
  arm()
  await work()
  arm(false)
  release()
  t.match(await bystander, { status: 200, text: 'held' })
  t.match(await call(gateway.public, { path: '/x' }), { status: 200, text: 'ok' })
  await until(() => gateway.countInFlight() === 0, 'the end of every exchange')
}

const faultsIn = ({ lines }: Gateway): readonly LoggedLine[] => lines.filter(({ level }) => level === 'error')

/** One line says what happened and where; nothing says a secret. */
async function checkLog(t: Test, gateway: Gateway): Promise<void> {
  await until(() => faultsIn(gateway).length > 0, 'the line of the fault')
  const [line, ...more] = faultsIn(gateway)
  t.same(more, [])
  t.match(line?.fields.error, { name: 'TypeError', message: /^planted/, stack: /^ {4}at fail .*last-resort\.test\.ts/ })
  t.notMatch(JSON.stringify(gateway.lines), /oat_|hunter2/)
}

type Spoil = (stages: Stages, isArmed: () => boolean) => Partial<Stages>

/** The same function, but for as long as it is armed. */
const spoilt =
  <Values extends readonly unknown[], Result>(good: (...values: Values) => Result, isArmed: () => boolean) =>
  (...values: Values): Result =>
    isArmed() ? fail() : good(...values)

const stages: Readonly<Record<string, Spoil>> = {
  snapshot: ({ snapshot }, isArmed) => ({ snapshot: spoilt(snapshot, isArmed) }),
  cors: ({ cors }, isArmed) => ({ cors: { ...cors, decorate: spoilt(cors.decorate, isArmed) } }),
  receive: ({ isTrustedProxy }, isArmed) => ({ isTrustedProxy: spoilt(isTrustedProxy, isArmed) }),
  locate: ({ snapshot }, isArmed) => ({
    snapshot: () => ({ ...snapshot(), locate: spoilt(snapshot().locate, isArmed) }),
  }),
  pin: ({ pin }, isArmed) => ({ pin: spoilt(pin, isArmed) }),
  forward: ({ forward }, isArmed) => ({ forward: async (...values) => spoilt(forward, isArmed)(...values) }),
  relay: ({ relay }, isArmed) => ({ relay: spoilt(relay, isArmed) }),
  'the record': ({ beginRecord }, isArmed) => ({ beginRecord: spoilt(beginRecord, isArmed) }),
  'an observer': ({ observe }, isArmed) => ({ observe: spoilt(observe, isArmed) }),
}

for (const [stage, spoil] of Object.entries(stages)) {
  t.test(`an exception in ${stage} is a 500 for that request alone`, async (t) => {
    const faulty = await start(t, spoil)
    await checkUnharmed(t, faulty, async () => {
      const answer = await call(faulty.gateway.public, { path: '/x' })
      t.equal(answer.status, 500)
      t.match(answer.json(), { success: false, error: { status: 500, code: 'internal', requestId: String } })
      t.notMatch(answer.text, /planted|TypeError/)
    })
    await checkLog(t, faulty.gateway)
  })
}

t.test('a 500 has the shape of the surface', async (t) => {
  const faulty = await start(t, stages.pin ?? fail)
  faulty.arm()
  const answer = await call(faulty.gateway.public, { method: 'POST', path: responsesPath })
  t.equal(answer.status, 500)
  t.match(answer.json(), { error: { type: 'server_error', code: 'internal', message: String } })
})

t.test('an exception in what answers a refusal breaks that connection alone', async (t) => {
  const transform: Spoil = (_, isArmed) => ({
    cors: {
      decorate: (exchange) => exchange.transformHead((headers) => (isArmed() ? fail() : headers)),
      readPreflight: () => undefined,
      answerPreflight: () => undefined,
    },
  })
  const faulty = await start(t, transform)
  await checkUnharmed(t, faulty, () => t.rejects(call(faulty.gateway.public, { path: '//' })))
  await checkLog(t, faulty.gateway)
})

/** Hands the answer's head on, and lets the test spoil the rest of it. */
const spoilResponse =
  (change: (response: UpstreamResponse) => Partial<UpstreamResponse>): Spoil =>
  ({ forward }, isArmed) => ({
    forward: async (...values) => {
      const response = await forward(...values)
      return isArmed() && 'pipe' in response ? { ...response, ...change(response) } : response
    },
  })

/** Values that the relay gets instead of bytes. */
const noBytes = undefined as unknown as Buffer

const inBody = spoilResponse(({ pipe }) => ({
  pipe: (sink, idleMs) =>
    pipe(
      {
        data: (chunk) => {
          sink.data(chunk)
          return sink.data(noBytes)
        },
        end: (how) => sink.end(how),
        fail: (error) => sink.fail(error),
      },
      idleMs,
    ),
}))

t.test('an exception while an answer passes breaks that answer, recognizably', async (t) => {
  const faulty = await start(t, inBody)
  await checkUnharmed(t, faulty, () => t.rejects(call(faulty.gateway.public, { path: '/x' })))
  await until(() => faultsIn(faulty.gateway).length > 0, 'the line of the fault')
  t.match(faultsIn(faulty.gateway), [
    {
      message: 'request failed',
      fields: { requestId: String, status: 200, failure: 'internal', error: { stack: String } },
    },
  ])
})

t.test('an exception within a stream ends it in response.failed, and its upstream', async (t) => {
  const faulty = await start(t, inBody)
  await checkUnharmed(t, faulty, async () => {
    const answer = await readAnswer(faulty.gateway.public + responsesPath)
    t.equal(answer.status, 200)
    const text = (await answer.whole()).toString()
    t.equal(text.split('event: ').length - 1, 2, 'what came before, and one more')
    t.match(text, /event: response\.failed\ndata: .*"sequence_number":1,.*"x_service_error_code":"internal_error"/)
  })
  await until(() => faultsIn(faulty.gateway).length > 0, 'the line of the fault')
  t.match(faultsIn(faulty.gateway), [
    { fields: { failure: 'internal_error', error: { name: 'TypeError', stack: String } } },
  ])
  await until(() => faulty.upstream.sockets().some(({ readableEnded }) => readableEnded), 'the end of the upstream')
})

t.test('an exception in a stream that cannot even say so breaks the connection', async (t) => {
  let isArmed = () => false
  const failLater = () => (isArmed() ? fail() : new Date())
  const spoil: Spoil = (_, armed) => {
    isArmed = armed
    return {}
  }
  // A response without an id, so the closing event needs one of the gateway.
  const faulty = await start(t, spoil, { relay: { now: failLater } })
  await checkUnharmed(t, faulty, async () => {
    const answer = await readAnswer(faulty.gateway.public + responsesPath)
    await until(() => answer.text().includes('response.created'), 'the first event')
    faulty.endStreams()
    await t.rejects(answer.whole())
  })
  await checkLog(t, faulty.gateway)
})

t.test('an exception in a timer of a stream ends that stream alone', async (t) => {
  const timers: (() => void)[] = []
  const startTimer: StartTimer = (_ms, onTime, target) => {
    timers.push(() => onTime(target))
    return { restart: () => undefined, stop: () => undefined }
  }
  const write: Spoil = ({ beginRecord }, isArmed) => ({
    beginRecord: (exchange, id) => {
      const open = exchange.startResponse.bind(exchange)
      exchange.startResponse = (head) => {
        const writer = open(head)
        return {
          write: (chunk) => (isArmed() ? fail() : writer.write(chunk)),
          onDrain: (listener) => writer.onDrain(listener),
          end: () => writer.end(),
        }
      }
      return beginRecord(exchange, id)
    },
  })
  const faulty = await start(t, write, { relay: { startTimer } })
  const answer = await readAnswer(faulty.gateway.public + responsesPath)
  await checkUnharmed(t, faulty, async () => {
    for (const onTime of timers) onTime()
    await t.rejects(answer.whole())
  })
  await checkLog(t, faulty.gateway)
})

t.test('an exception when a slow client is ready again breaks that connection alone', async (t) => {
  let standsStill = false
  const spoil = spoilResponse(({ pipe }) => ({
    // The system may take a read in two parts, without a client that stands still.
    resume: () => (standsStill ? fail() : undefined),
    pipe: (sink, idleMs) => {
      const data = (chunk: Buffer): boolean => {
        standsStill = !sink.data(chunk)
        return !standsStill
      }
      pipe({ data, end: (how) => sink.end(how), fail: (error) => sink.fail(error) }, idleMs)
    },
  }))
  const faulty = await start(t, spoil)
  await checkUnharmed(t, faulty, async () => {
    const client = await openRawClient(t, faulty.gateway.public)
    client.socket.pause()
    client.send('GET /large HTTP/1.1\r\nHost: h\r\n\r\n')
    await until(() => standsStill, 'that it stands still')
    client.socket.resume()
    await client.closed()
    t.ok(client.text().length < 3e7)
  })
  await checkLog(t, faulty.gateway)
})

t.test('an exception after a request has ended harms no other request', async (t) => {
  let isArmed = () => false
  const onLine = ({ message }: LoggedLine): void => {
    if (message === 'request' && isArmed()) fail()
  }
  const spoil: Spoil = (_, armed) => {
    isArmed = armed
    return {}
  }
  const faulty = await start(t, spoil, { onLine })
  await checkUnharmed(t, faulty, async () => {
    t.match(await call(faulty.gateway.public, { path: '/x' }), { status: 200 })
    await until(() => faultsIn(faulty.gateway).length > 0, 'the fault')
  })
  await checkLog(t, faulty.gateway)
})
