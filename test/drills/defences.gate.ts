import t from 'tap'
import { columns } from '../support/press/column.ts'
import { playInDatabase } from './defences/command.ts'
import { gateRows, manyGateways } from './defences/gate-rows.ts'
import { type Cell, findReason } from './defences/play-defences.ts'

/** Beside other tests of the gate a test takes several times as long as alone. */
const timeoutMs = 300_000

t.test('one advisory test of each class holds under each pressure', async (t) => {
  const cells = columns.flatMap((column) =>
    Object.values(gateRows).flatMap((file): readonly Cell[] =>
      findReason(file, column) === undefined && !(column === 'workers' && manyGateways.has(file))
        ? [[column, file]]
        : [],
    ),
  )
  await playInDatabase(cells, { jobs: 2, timeoutMs }, ({ row, faults }) => {
    t.same(faults, [], `${row.column} ${row.file}, pressed ${row.pressed} times`)
  })
})
