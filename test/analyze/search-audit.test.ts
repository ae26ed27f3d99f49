import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { searchAudit } from '../../gateway/analyze/search-audit.ts'

t.test('lines of another program, halves of lines and nonsense hide no decision', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
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
  const file = join(folder, 'audit.log')
  writeFileSync(file, lines.join('\n'))
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
