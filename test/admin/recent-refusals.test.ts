import t from 'tap'
import { mergeRefusals, refusalLimit, rememberRefusals } from '../../gateway/admin/recent-refusals.ts'
import { GatewayError } from '../../gateway/errors/gateway-error.ts'
import { noAudit } from '../../gateway/observe/audit/audit.ts'
import type { AuditedDecision } from '../../gateway/observe/audit/line.ts'

const at = (second: number): Date => new Date(second * 1_000)

const decision = (more: Partial<AuditedDecision> = {}): AuditedDecision => ({
  time: at(1),
  requestId: 'a-request',
  listener: 'public',
  outcome: 'refused',
  status: 404,
  error: new GatewayError('route_not_found'),
  principal: undefined,
  organization: undefined,
  route: undefined,
  method: 'GET',
  path: '/x',
  clientAddress: '192.0.2.1',
  ...more,
})

t.test('what was refused is remembered, newest first, and never more of it than so many', async (t) => {
  const { audit, refusals } = rememberRefusals(noAudit)
  t.same(refusals(), [])
  for (let second = 0; second < refusalLimit + 7; second++) {
    await audit.record(decision({ time: at(second) }))
    await audit.record(decision({ time: at(second), outcome: 'allowed', error: undefined }))
  }
  const times = refusals().map(({ time }) => time)
  t.equal(times.length, refusalLimit)
  t.equal(times[0], at(refusalLimit + 6).toISOString())
  t.equal(times.at(-1), at(7).toISOString())
  t.same(times, [...times].sort().reverse())
})

t.test('the audit behind hears every decision, and its refusal to write is handed on', async (t) => {
  const heard: string[] = []
  const { audit } = rememberRefusals({
    ...noAudit,
    record: async ({ outcome }) => {
      heard.push(outcome)
      throw new GatewayError('audit_unavailable')
    },
  })
  await t.rejects(Promise.resolve(audit.record(decision())), { code: 'audit_unavailable' })
  await t.rejects(Promise.resolve(audit.record(decision({ outcome: 'allowed' }))), { code: 'audit_unavailable' })
  t.same(heard, ['refused', 'allowed'])
})

t.test('credentials in a path stay out, and nothing is longer than a page can take', async (t) => {
  const { audit, refusals } = rememberRefusals(noAudit)
  const token = 'oat_MTI.c2VjcmV0LXNlY3JldC1zZWNyZXQ'
  await audit.record(decision({ path: `/x/${token}/y` }))
  // A JWT lies across the place where the path is cut: half of it would not be known for one.
  await audit.record(
    decision({ path: `/${'p'.repeat(235)}/eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIn0.c2ln` }),
  )
  await audit.record(
    decision({ path: `/${'q'.repeat(9_000)}`, method: 'M'.repeat(9_000), requestId: 'r'.repeat(9_000) }),
  )
  const [long, across, inside] = refusals()
  t.equal(inside?.path, '/x/[redacted]/y')
  t.notMatch(JSON.stringify(across), /eyJ/)
  t.ok(JSON.stringify(long).length < 1_024)
})

t.test('of several processes the newest refusals count, and as many as of one', async (t) => {
  const remember = async (seconds: readonly number[]) => {
    const { audit, refusals } = rememberRefusals(noAudit)
    for (const second of seconds) await audit.record(decision({ time: at(second) }))
    return refusals()
  }
  const numbers = Array.from({ length: refusalLimit }, (_, index) => index)
  const merged = mergeRefusals([
    await remember(numbers.map((number) => number * 2)),
    await remember(numbers.map((number) => number * 2 + 1)),
  ])
  t.equal(merged.length, refusalLimit)
  t.equal(merged[0]?.time, at(refusalLimit * 2 - 1).toISOString())
  t.equal(merged.at(-1)?.time, at(refusalLimit).toISOString())
})
