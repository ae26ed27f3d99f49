import t from 'tap'
import { Deadline } from '../../../gateway/base/lib/deadline.ts'
import { freeAccount } from '../../../gateway/http/memory-budget.ts'
import { Http1RequestBody } from '../../../gateway/http/server/request-body.ts'
import { until } from '../../support/gateway.ts'

/** A body without a connection, and what becomes of it at its consumer. */
function open({ minBodyBytesPerSecond = 0, awaitsContinue = false, limitBytes = 100 } = {}) {
  const seen = { text: '', end: '', isReading: true, continues: 0 }
  const deadline = new Deadline()
  const source = {
    setDeadline: deadline.set.bind(deadline),
    stopDeadline: () => deadline.stop(),
    account: freeAccount,
    isHeld: false,
    pauseReading: () => {
      seen.isReading = false
    },
    resumeReading: () => {
      seen.isReading = true
    },
    writeContinue: () => {
      seen.continues += 1
    },
  }
  const body = new Http1RequestBody(source, undefined, awaitsContinue, {
    bodyIdleTimeoutMs: 100,
    minBodyBytesPerSecond,
  })
  const consumer = {
    data: (chunk: Buffer) => {
      seen.text += chunk.toString()
    },
    end: () => {
      seen.end = 'complete'
    },
    fail: ({ fault }: { fault: string }) => {
      seen.end = fault
    },
  }
  /** Pushes bytes as a connection does, which reuses their memory afterwards. */
  const say = (text: string): void => {
    const bytes = Buffer.from(text)
    body.push(bytes)
    bytes.fill('?')
  }
  return { seen, body, take: () => body.consume(consumer, limitBytes), say }
}

t.test('the client gets one 100 Continue, once its body is asked for', async (t) => {
  const { seen, take, say, body } = open({ awaitsContinue: true })
  t.equal(seen.continues, 0)
  take()
  say('hello')
  body.finish()
  t.same(seen, { text: 'hello', end: 'complete', isReading: true, continues: 1 })
})

t.test('early bytes are kept, up to a limit, and given in order', async (t) => {
  const { seen, take, say, body } = open({ limitBytes: 1e6 })
  say('early,')
  say('x'.repeat(70_000))
  t.equal(seen.isReading, false)
  take()
  t.equal(seen.isReading, true)
  body.pause()
  say('late')
  body.finish()
  t.equal(seen.end, '')
  body.resume()
  t.match(seen, { text: /^early,x{70000}late$/, end: 'complete' })
})

t.test('a body over its limit, one that breaks off, and a malformed one, fail', async (t) => {
  const large = open({ limitBytes: 4 })
  large.take()
  large.say('hello')
  t.match(large.seen, { text: '', end: 'body-too-large' })
  const cut = open()
  cut.take()
  cut.body.abort()
  t.equal(cut.seen.end, 'cancelled')
  const spoilt = open()
  let wanted = 0
  spoilt.say('half')
  spoilt.body.poison(() => {
    wanted += 1
  })
  t.equal(wanted, 0)
  spoilt.take()
  t.same([wanted, spoilt.seen.text, spoilt.seen.end], [1, '', 'body-malformed'])
  const read = open()
  const refused = read.body.read(100)
  read.body.poison(() => undefined)
  await t.rejects(refused, { code: 'headers_malformed' })
})

t.test('a body that stops or drips fails, and one whose reader pauses does not', async (t) => {
  const silent = open()
  silent.take()
  const dripping = open({ minBodyBytesPerSecond: 1_000 })
  dripping.take()
  const drip = setInterval(() => dripping.say('x'), 10)
  const waiting = open()
  waiting.take()
  waiting.body.pause()
  await until(() => silent.seen.end && dripping.seen.end, 'both ends')
  clearInterval(drip)
  t.same([silent.seen.end, dripping.seen.end, waiting.seen.end], ['body-timeout', 'body-timeout', ''])
  waiting.body.discard()
})

t.test('a body that the gateway reads is a copy, which later reads do not change', async (t) => {
  const { body, say } = open()
  say('early, ')
  const read = body.read(100)
  for (const text of ['in its ', 'time']) say(text)
  body.finish()
  t.equal((await read).toString(), 'early, in its time')
})
