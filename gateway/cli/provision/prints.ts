import { listedRows } from '../../directory/postgres/provision/provisioning.ts'
import { escapeControls, formatTable } from '../../lib/text-table.ts'
import type { Common } from './readings.ts'

/** Prints an entry as JSON, or lines about it. Names in them come from the database, and may not steer the terminal. */
export function printRow({ json }: Common, row: object, text: string): void {
  const lines = text.split('\n').map((line) => `${escapeControls(line)}\n`)
  process.stdout.write(json ? `${JSON.stringify(row)}\n` : lines.join(''))
}

type List<Row> = Readonly<{
  rows: readonly Row[]
  header: readonly string[]
  cells: (row: Row) => readonly string[]
  none: string
  idOf: (row: Row) => number
}>

export function printList<Row>({ json }: Common, { rows, header, cells, none, idOf }: List<Row>): void {
  if (json) process.stdout.write(`${JSON.stringify(rows)}\n`)
  else process.stdout.write(rows.length === 0 ? `${none}\n` : formatTable(header, rows.map(cells)))
  const last = rows.at(-1)
  if (last && rows.length === listedRows)
    process.stderr.write(`there may be more: "--after ${idOf(last)}" lists the next ${listedRows}\n`)
}
