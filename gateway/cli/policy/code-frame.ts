import { readFileSync } from 'node:fs'
import { disarm } from '../../lib/text-table.ts'

/** Lines and columns count from 1; without a column the line's first word is meant. */
export type SourceLocation = Readonly<{ file: string; line: number; column?: number }>

/** Lines above the one that is meant. */
const before = 2

/** The lines of a file that lead to a place, with a mark under it; empty where the file cannot be read. */
export function renderFrame({ file, line, column }: SourceLocation): string {
  const lines = readLines(file).slice(0, line)
  const meant = lines[line - 1]
  if (meant === undefined) return ''
  const width = String(line).length
  const shown = lines.slice(-before - 1).map((text, index, all) => {
    const number = line - all.length + 1 + index
    return `  ${String(number).padStart(width)} | ${disarm(text)}\n`
  })
  const offset = column === undefined ? meant.search(/\S/) : Math.min(column - 1, meant.length)
  return `${shown.join('')}  ${' '.repeat(width)} | ${' '.repeat(Math.max(0, offset))}^\n`
}

function readLines(file: string): readonly string[] {
  try {
    return readFileSync(file, 'utf8').split(/\r?\n/)
  } catch {
    return [] // it may be the very thing that the message is about
  }
}
