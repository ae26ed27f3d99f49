import type { LineSink } from './line-buffer.ts'

const colors: Readonly<Record<string, number>> = { debug: 90, info: 32, warn: 33, error: 31, fatal: 35 }

const placed = new Set(['time', 'level', 'msg', 'method', 'path', 'status', 'durationMs', 'error'])

export const prettify = (sink: LineSink, isColored: boolean): LineSink => ({
  write: (text, count) => {
    const lines = text.split('\n').slice(0, -1)
    return sink.write(lines.map((line) => `${formatLine(line, isColored)}\n`).join(''), count)
  },
})

/** `08:15:30.123 info  request GET /datasets 200 3.2 ms reason=allowed …`, with the error on lines below. */
export function formatLine(line: string, isColored: boolean): string {
  const fields = parse(line)
  if (!fields) return tell(line)
  const { time, level, msg, method, path, status, durationMs, error } = fields
  const paint = (text: string): string => (isColored ? `\x1b[${colors[text.trim()] ?? 0}m${text}\x1b[0m` : text)
  const head = [String(time).slice(11, 23), paint(String(level).padEnd(5)), msg, method, path, status]
  const duration = typeof durationMs === 'number' ? `${durationMs} ms` : undefined
  const others = Object.entries(fields).flatMap(([name, value]) =>
    placed.has(name) ? [] : [`${tell(name)}=${tell(value)}`],
  )
  const parts = [...head.slice(0, 2), ...[...head.slice(2), duration].map(tell), ...others]
  return [parts.filter((part) => part !== '').join(' '), ...describe(error)].join('\n')
}

function parse(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return undefined
  }
}

function describe(error: unknown): readonly string[] {
  if (typeof error !== 'object' || error === null) return []
  const { name, code, message, stack, cause } = error as Record<string, unknown>
  const first = [tell(name), code === undefined ? '' : `(${tell(code)})`, tell(message)].filter((part) => part !== '')
  const place = typeof stack === 'string' ? stack.split('\n').map((step) => `      ${tell(step.trim())}`) : []
  return [`    ${first.join(' ')}`, ...place, ...describe(cause)]
}

/** Escapes controls, so that a client's text cannot move the cursor, change colors or begin a line. */
function tell(value: unknown): string {
  if (value === undefined || value === null) return ''
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (letter) => {
    const code = (letter.codePointAt(0) ?? 0).toString(16)
    return `\\u${code.padStart(4, '0')}`
  })
}
