/** The value that this share of all values does not exceed (nearest rank); NaN without any. */
export function findPercentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN
}

/** Columns of even width, the first to the left and the numbers to the right. */
export function renderTable(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const pad = (cell: string, column: number): string =>
    column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)
  return rows.map((row) => row.map(pad).join('  ').trimEnd()).join('\n')
}
