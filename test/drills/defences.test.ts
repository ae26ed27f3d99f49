import { readFileSync } from 'node:fs'
import t from 'tap'
import { gateRows } from '../../drills/defences/gate-rows.ts'
import { namedRows } from '../../drills/defences/named-rows.ts'
import { findReason, findStrangers, judgeRow, listAdvisories } from '../../drills/defences/play-defences.ts'
import type { Row } from '../../drills/defences/play-row.ts'
import { columns } from '../support/press/column.ts'

const green: Row = {
  ...{ column: 'reads', file: 'oversize', failed: [], details: [], ran: ['one', 'one > two'], skipped: 0 },
  ...{ fault: undefined, pressed: 3, seconds: 1 },
}

t.test('a test file is green where its tests passed under a pressure that was at work', async (t) => {
  t.same(judgeRow(green), [])
})

t.test('a test file is red for a failure, a crash, no test and no pressure', async (t) => {
  const reds: readonly Partial<Row>[] = [
    { failed: ['one > two'] },
    { failed: [''] },
    { fault: 'ended with 1' },
    { ran: [] },
    { pressed: 0 },
  ]
  for (const red of reds) t.ok(judgeRow({ ...green, ...red }).length > 0, JSON.stringify(red))
})

t.test('a failure of a named test is expected, and a named test that is gone is not', async (t) => {
  const named = namedRows.find(({ test, columns }) => test !== undefined && columns.includes('reads'))
  const { file = '', test = '' } = named ?? {}
  t.same(judgeRow({ ...green, file, failed: [test, `${test} > a block of it`], ran: [test] }), [])
  t.match(judgeRow({ ...green, file }), [`named, but not there: ${test}`])
})

t.test('each named file is there, and has a reason', async (t) => {
  t.same(findStrangers(listAdvisories()), [])
  t.ok(findStrangers([]).length > 0)
  for (const { reason } of namedRows) t.ok(reason.length > 10)
})

t.test('the gate plays files that are there, most of them under each column', async (t) => {
  const files = Object.values(gateRows)
  for (const file of files) t.ok(listAdvisories().includes(file), file)
  for (const column of columns)
    t.ok(files.filter((file) => findReason(file, column) === undefined).length >= files.length - 4, column)
})

t.test('.ci/drills plays the whole matrix', async (t) => {
  t.match(readFileSync(new URL('../../.ci/drills', import.meta.url), 'utf8'), 'npm run drill -- defences')
})
