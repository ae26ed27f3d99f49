import { readFileSync } from 'node:fs'
import { lintPolicy, type Warning } from '../../analyze/lint.ts'
import { type PolicySource, readPolicy } from '../../analyze/read-policy.ts'
import { checkIssuers } from '../../boot/check-issuers.ts'
import { ReportedError } from '../../configuration/failure.ts'
import { paintWarning } from '../../lib/paint.ts'
import { escapeControls, escapeJson } from '../../lib/text-table.ts'
import type { Policy } from '../../policy/compile.ts'
import { ConfigurationError, type Problem, placeOf } from '../../policy/configuration-error.ts'

type CheckOptions = PolicySource & Readonly<{ strict?: boolean; json?: boolean }>

export function runCheckPolicy(options: CheckOptions): void {
  const policy = readOrReport(options)
  const warnings = lintPolicy(policy)
  const summary = { routes: policy.routes.length, roles: policy.roles.organization.size, warnings }
  if (options.json) process.stdout.write(`${escapeJson({ ...summary, problems: [] })}\n`)
  else process.stdout.write(`${warnings.map(renderWarning).join('')}${summarise(summary)}\n`)
  if (options.strict && warnings.length > 0) process.exitCode = 1
}

const summarise = (summary: Readonly<{ routes: number; roles: number; warnings: readonly Warning[] }>): string =>
  `${summary.routes} routes, ${summary.roles} roles, no mistakes, ${summary.warnings.length} warnings`

function readOrReport(options: CheckOptions): Policy {
  try {
    const { policy, configuration } = readPolicy(options)
    if (configuration) checkIssuers(configuration)
    return policy
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    if (options.json) process.stdout.write(`${escapeJson({ problems: error.problems })}\n`)
    throw new ReportedError({ exitCode: 2, message: describe(error.problems, options.config) })
  }
}

/** Lines of the configuration are not shown: they may hold secrets. */
const describe = (problems: readonly Problem[], config: string): string => {
  const all = problems.map((problem) => {
    const { file, line, column, message } = problem
    const frame = file === config || line === undefined ? '' : renderFrame({ file, line, column })
    return `${placeOf(problem)}: error: ${escapeControls(message)}\n${frame}`
  })
  const isOfConfiguration = problems.every(({ file }) => file === config)
  const head = isOfConfiguration
    ? 'the configuration cannot be used; --policies FOLDER checks a policy without it'
    : 'the policy cannot be used'
  return `${head}\n${all.join('')}${count(problems.length, 'mistake')}`
}

const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`

function renderWarning({ source, message }: Warning): string {
  const [, file, line] = /^(.*):(\d+)$/.exec(source) ?? []
  const frame = file === undefined ? '' : renderFrame({ file, line: Number(line) })
  return `${source}: ${paintWarning('warning:', process.stdout)} ${escapeControls(message)}\n${frame}`
}

type SourceLocation = Readonly<{ file: string; line: number; column?: number | undefined }>

const linesBefore = 2

function renderFrame({ file, line, column }: SourceLocation): string {
  const lines = readLines(file).slice(0, line)
  const meant = lines[line - 1]
  if (meant === undefined) return ''
  const width = String(line).length
  const shown = lines.slice(-linesBefore - 1).map((text, index, all) => {
    const number = line - all.length + 1 + index
    return `  ${String(number).padStart(width)} | ${escapeControls(text)}\n`
  })
  const offset = column === undefined ? meant.search(/\S/) : Math.min(column - 1, meant.length)
  return `${shown.join('')}  ${' '.repeat(width)} | ${' '.repeat(Math.max(0, offset))}^\n`
}

function readLines(file: string): readonly string[] {
  try {
    return readFileSync(file, 'utf8').split(/\r?\n/)
  } catch {
    return [] // the missing file may be what the message is about
  }
}
