/** The value that this share of all values does not exceed (nearest rank); NaN without any. */
export function findPercentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN
}

/** Welch's t of two samples: how many standard errors their means lie apart. */
export function welch(left: readonly number[], right: readonly number[]): number {
  const [one, other] = [describeSample(left), describeSample(right)]
  return (one.mean - other.mean) / Math.sqrt(one.squaredError + other.squaredError)
}

function describeSample(values: readonly number[]): Readonly<{ mean: number; squaredError: number }> {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0)
  return { mean, squaredError: squares / (values.length - 1) / values.length }
}

/** Columns of even width, the first to the left and the numbers to the right. */
export function renderTable(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const pad = (cell: string, column: number): string =>
    column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)
  return rows.map((row) => row.map(pad).join('  ').trimEnd()).join('\n')
}
