/** Columns for a terminal. Cells come from the database, and their control characters must not steer it. */
export function formatTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [header, ...rows].map((cells) => cells.map(escapeControls))
  const widths = header.map((_, column) => Math.max(...lines.map((cells) => cells[column]?.length ?? 0)))
  const format = (cells: readonly string[]): string =>
    cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')
  return lines.map((cells) => `${format(cells).trimEnd()}\n`).join('')
}

/** Replaces control characters, and those that turn the direction of writing, by question marks. */
export const escapeControls = (text: string): string => text.replace(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu, '?')

export const escapeLines = (text: string, indent = ''): string =>
  text.split('\n').map(escapeControls).join(`\n${indent}`)

/** JSON in visible ASCII: a foreign value may not steer the terminal. */
export const escapeJson = (value: unknown, indent?: number): string =>
  JSON.stringify(value, undefined, indent).replace(
    /[^\x20-\x7e\n]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
