import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { searchAudit } from '../../gateway/analyze/search-audit.ts'

const makeFile = (t: Test, lines: readonly string[]): string => {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'audit.log')
  writeFileSync(file, lines.join('\n'))
  return file
}

t.test('beside the decision, an error after it and the end of what was open are found', async (t) => {
  const lines = [
    { audit: 'decision', outcome: 'allowed', status: null },
    { audit: 'failure', status: 404, cause: 'user_not_a_member' },
    { audit: 'failure', status: 503, cause: 'upstream_unreachable', upstream: 'platform', durationMs: 7 },
    { audit: 'end', reason: 'access_revoked', cause: 'session_ended' },
    { audit: 'other', status: 503 },
  ]
  const file = makeFile(
    t,
    lines.map((line) => JSON.stringify({ ...line, requestId: 'r-1' })),
  )
  t.match((await searchAudit(file, 'r-1')).found, [
    { outcome: 'allowed', status: null },
    { outcome: 'refused', status: 404, cause: 'user_not_a_member' },
    { outcome: 'failed', status: 503, cause: 'upstream_unreachable', upstream: 'platform', durationMs: 7 },
    { outcome: 'ended', reason: 'access_revoked', cause: 'session_ended' },
  ])
  t.equal((await searchAudit(file, 'r-1')).found.length, 4)
})

t.test('lines of another program, halves of lines and nonsense hide no decision', async (t) => {
  const decision = { audit: 'decision', requestId: 'r-1', outcome: 'refused', status: 403 }
  const whole = JSON.stringify(decision)
  const lines = [
    whole,
    whole.slice(0, -9),
    `${whole}${whole}`,
    'restarted r-1',
    '"r-1"',
    'null r-1',
    '["r-1"]',
    JSON.stringify({ ...decision, padding: 'x'.repeat(100_000) }),
    JSON.stringify({ ...decision, status: { r: 'r-1' }, subject: 7, credential: null, path: ['r-1'] }),
    Buffer.from([0xff, 0xfe, 0x00]).toString('latin1'),
    JSON.stringify({ ...decision, requestId: 'r-10' }),
    whole,
  ]
  const file = makeFile(t, lines)
  const { found, left } = await searchAudit(file, 'r-1')
  t.same(
    found.map(({ source, status, path }) => [source.slice(file.length), status, path]),
    [
      [':1', 403, null],
      [':9', null, null],
      [':12', 403, null],
    ],
  )
  t.equal(left, 0)
})
