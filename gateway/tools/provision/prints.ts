import { escapeJson, escapeLines, formatTable } from '../../base/lib/text-table.ts'
import { listedRows } from '../../directory/postgres/provision/provisioning.ts'
import type { Common } from './readings.ts'

/** Prints an entry as JSON, or lines about it. Names in them come from the database, and may not steer the terminal. */
export function printRow({ json }: Common, row: object, text: string): void {
  process.stdout.write(`${json ? escapeJson(row) : escapeLines(text)}\n`)
}

type List<Row> = Readonly<{
  rows: readonly Row[]
  header: readonly string[]
  cells: (row: Row) => readonly string[]
  none: string
  idOf: (row: Row) => number
}>

export function printList<Row>({ json }: Common, { rows, header, cells, none, idOf }: List<Row>): void {
  if (json) process.stdout.write(`${escapeJson(rows)}\n`)
  else process.stdout.write(rows.length === 0 ? `${none}\n` : formatTable(header, rows.map(cells)))
  const last = rows.at(-1)
  if (last && rows.length === listedRows)
    process.stderr.write(`there may be more: "--after ${idOf(last)}" lists the next ${listedRows}\n`)
}
