import { ConfigurationError } from '../../policy/configuration-error.ts'

export type CsvCell = Readonly<{ text: string; line: number; column: number }>

/** Reads comma-separated values by RFC 4180, character by character; throws `ConfigurationError`. */
export function parseCsv(file: string, text: string): readonly (readonly CsvCell[])[] {
  const rows: CsvCell[][] = []
  let row: CsvCell[] = []
  let line = 1
  let lineStart = 0
  let index = text.startsWith('\ufeff') ? 1 : 0
  const fail = (at: number, message: string): ConfigurationError =>
    new ConfigurationError([{ file, line, column: at - lineStart + 1, message }])

  const readCell = (): CsvCell => {
    const place = { line, column: index - lineStart + 1 }
    if (text[index] !== '"') {
      const from = index
      while (index < text.length && !',\r\n'.includes(text[index] ?? '')) {
        if (text[index] === '"') throw fail(index, 'a quote stands in a field without quotes; put the field in quotes')
        index += 1
      }
      return { text: text.slice(from, index), ...place }
    }
    const parts: string[] = []
    let from = ++index
    for (; ; index++) {
      if (index >= text.length)
        throw new ConfigurationError([{ file, ...place, message: 'the quote of this field is never closed' }])
      if (text[index] === '\n') {
        line += 1
        lineStart = index + 1
      } else if (text[index] === '"') {
        parts.push(text.slice(from, index))
        if (text[index + 1] !== '"') break
        from = ++index
      }
    }
    index += 1
    return { text: parts.join(''), ...place }
  }

  while (index < text.length) {
    row.push(readCell())
    if (text[index] === ',') {
      index += 1
      if (index < text.length) continue
      row.push({ text: '', line, column: index - lineStart + 1 })
    } else if (text[index] === '\r' && text[index + 1] === '\n') index += 1
    else if (index < text.length && text[index] !== '\n')
      throw fail(index, 'a comma or the end of the line must follow')
    index += 1
    rows.push(row)
    row = []
    line += 1
    lineStart = index
  }
  return rows.filter((cells) => cells.length > 1 || cells[0]?.text !== '')
}
