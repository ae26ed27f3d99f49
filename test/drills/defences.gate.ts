import t from 'tap'
import { playInDatabase } from '../../drills/defences/command.ts'
import { gateRows, manyGateways } from '../../drills/defences/gate-rows.ts'
import { type Cell, findReason } from '../../drills/defences/play-defences.ts'
import { columns } from '../support/press/column.ts'

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
