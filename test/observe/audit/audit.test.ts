import t, { type Test } from 'tap'
import { type AuditSettings, createAudit } from '../../../gateway/observe/audit/audit.ts'
import type { AuditedDecision } from '../../../gateway/observe/audit/line.ts'
import type { LogFields } from '../../../gateway/observe/log/log.ts'
import { until } from '../../support/gateway.ts'
import { createFakePlace, takeAll } from './fake-place.ts'

const decision: AuditedDecision = {
  time: new Date(0),
  requestId: 'request',
  listener: 'public',
  outcome: 'allowed',
  status: undefined,
  error: undefined,
  principal: undefined,
  organization: undefined,
  route: undefined,
  method: 'GET',
  path: '/',
  clientAddress: '192.0.2.7',
}

function open(t: Test, settings: Partial<AuditSettings> = {}) {
  const place = createFakePlace()
  const counts = { written: 0, dropped: 0 }
  const logged: string[] = []
  let isUp = () => true
  let nowMs = 1_000
  const log = (fields: LogFields, message: string): void => {
    logged.push(`${message} ${JSON.stringify(fields.dropped ?? '')}`)
  }
  const audit = createAudit(
    place,
    { onFull: 'drop', bufferBytes: 10_000, waitMs: 60_000, replica: 'r', ...settings },
    {
      log: { request: () => undefined, info: log, warn: log, error: log },
      metrics: {
        countAudit: (outcome, lines) => {
          counts[outcome] += lines
        },
        watchAuditSink: (read) => {
          isUp = read
        },
      },
      monotonicMs: () => nowMs,
    },
  )
  t.teardown(() => audit.close(0))
  const record = async (recorded = decision) => audit.record(recorded)
  return { place, audit, record, counts, logged, isUp: () => isUp(), pass: (ms: number) => (nowMs += ms) }
}

t.test('drop: no request waits; lines without room are counted, and told of now and then', async (t) => {
  const { place, audit, counts, logged, pass } = open(t)
  place.answer(() => 'EAGAIN')
  for (let count = 0; count < 100; count++) t.equal(audit.record(decision), undefined)
  t.ok(counts.dropped > 50, `${counts.dropped} of 100`)
  t.same(logged, ['audit lines dropped 1'], 'the first at once')
  const before = counts.dropped
  pass(10_000)
  t.equal(audit.record(decision), undefined)
  t.same(logged.slice(1), [`audit lines dropped ${before}`], 'the others together')
  place.answer(takeAll)
  await until(() => counts.written + counts.dropped === 101, 'every line')
  t.equal(place.taken().split('\n').length - 1, counts.written)
})

t.test('wait: a decision is held until its line is written', async (t) => {
  const { place, audit } = open(t, { onFull: 'wait' })
  let release: () => void = () => undefined
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  place.answer(() => released.then(takeAll))
  let isHeld = true
  const recorded = audit.record(decision)?.then(() => {
    isHeld = false
  })
  await new Promise((resolve) => setTimeout(resolve, 30))
  t.equal(isHeld, true)
  release()
  await recorded
  t.match(place.taken(), /"requestId":"request"/)
})

t.test('wait: a decision whose line is not written in time is refused, and the line not written later', async (t) => {
  const { place, audit, record, counts, logged } = open(t, { onFull: 'wait', waitMs: 40 })
  place.answer(() => 'EAGAIN')
  const late = [record(), record({ ...decision, requestId: 'second' })]
  for (const recorded of late) await t.rejects(recorded, { code: 'audit_unavailable', status: 503 })
  t.equal(counts.dropped, 1, 'the second was not under way')
  t.same(logged, ['audit lines dropped 1'])
  place.answer(takeAll)
  await audit.close(1_000)
  t.notMatch(place.taken(), /second/)
})

t.test('wait: a place that fails is a refusal at once, for those who wait and for those who come', async (t) => {
  const { place, record, counts, isUp } = open(t, { onFull: 'wait' })
  place.answer(() => 'ENOSPC')
  await t.rejects(record(), { code: 'audit_unavailable' })
  t.equal(isUp(), false)
  await t.rejects(record(), { code: 'audit_unavailable' })
  t.same(counts, { written: 0, dropped: 2 })
})

t.test('wait: more than the memory holds is a refusal at once', async (t) => {
  const { place, audit } = open(t, { onFull: 'wait', bufferBytes: 1_000 })
  place.answer(() => 'EAGAIN')
  const ends = Array.from({ length: 10 }, () =>
    audit.record(decision)?.then(
      () => true,
      () => false,
    ),
  )
  t.equal(await Promise.race(ends.slice(5)), false)
  place.answer(takeAll)
  t.same((await Promise.all(ends)).filter(Boolean).length, 3, 'those that found room are written')
})

t.test('the log says once that a place fails, and once that it works again', async (t) => {
  const { place, audit, logged, isUp, counts } = open(t)
  place.answer(() => 'ENOSPC')
  for (let count = 0; count < 5; count++) t.equal(audit.record(decision), undefined)
  await until(() => !isUp(), 'the failure')
  place.answer(takeAll)
  await until(() => counts.written === 5, 'all lines')
  t.same(logged, ['audit not written ""', 'audit written again ""'])
})
