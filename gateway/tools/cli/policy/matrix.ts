import { nameOutcome, renderMatrixPage } from '../../../../console/matrix.ts'
import { buildMatrix, type Cell, type MatrixRow } from '../../../analyze/matrix.ts'
import { type PolicySource, readPolicy } from '../../../analyze/read-policy.ts'
import { escapeControls, escapeJson, formatTable } from '../../../base/lib/text-table.ts'
import { chooseFormat, type FormatOptions } from './format-option.ts'

export function runMatrix(options: PolicySource & FormatOptions): void {
  const format = chooseFormat(options, matrixFormats)
  process.stdout.write(formatMatrix(buildMatrix(readPolicy(options).policy), format))
}

const matrixFormats = ['table', 'markdown', 'csv', 'html', 'json'] as const

type MatrixFormat = (typeof matrixFormats)[number]

export function formatMatrix(rows: readonly MatrixRow[], format: MatrixFormat): string {
  const isLimited = rows.some(({ rateLimit }) => rateLimit !== undefined)
  const isRewritten = rows.some(({ upstreamPath }) => upstreamPath !== undefined)
  const header = [
    'route',
    'methods',
    'path',
    ...(isRewritten ? ['upstream path'] : []),
    ...(isLimited ? ['rate limit'] : []),
    ...(rows[0]?.cells ?? []).map(nameColumn),
  ]
  const lines = rows.map(({ route, methods, path, upstreamPath, rateLimit, cells }) => [
    route,
    methods.join(' '),
    path,
    ...(isRewritten ? [upstreamPath ?? path] : []),
    ...(isLimited ? [rateLimit ?? ''] : []),
    ...cells.map(({ outcome }) => nameOutcome(outcome)),
  ])
  switch (format) {
    case 'table':
      return formatTable(header, lines)
    case 'markdown':
      return [header, header.map(() => '---'), ...lines]
        .map((cells) => `| ${cells.map(escapeBar).join(' | ')} |\n`)
        .join('')
    case 'csv':
      return [header, ...lines].map((cells) => `${cells.map(quote).join(',')}\r\n`).join('')
    case 'html':
      return renderMatrixPage(rows)
    case 'json':
      return `${escapeJson(rows, 2)}\n`
    default:
      return format satisfies never
  }
}

const nameColumn = ({ role, credential }: Cell): string => (credential === 'none' ? role : `${role}/${credential}`)

const escapeBar = (cell: string): string => escapeControls(cell).replaceAll('|', '\\|')

/** RFC 4180. A spreadsheet may also split at a semicolon or tab, and computes what begins like a formula (OWASP, CSV injection). */
const quote = (cell: string): string => {
  const text = /^[=+\-@\t\r\n＝＋－＠]/.test(cell) ? `'${cell}` : cell
  return /[",;\t\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
