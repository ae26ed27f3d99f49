import { readFileSync } from 'node:fs'
import { lintPolicy, type Warning } from '../../../analyze/lint.ts'
import { type PolicySource, type ReadPolicy, readPolicy } from '../../../analyze/read-policy.ts'
import { checkScopes } from '../../../analyze/rule-names.ts'
import { paintWarning } from '../../../base/lib/paint.ts'
import { escapeControls, escapeJson } from '../../../base/lib/text-table.ts'
import type { Configuration } from '../../../configuration/configuration.ts'
import { ReportedError } from '../../../configuration/failure.ts'
import { ConfigurationError, type Problem, placeOf } from '../../../policy/configuration-error.ts'
import type { Route } from '../../../policy/route.ts'
import { checkIssuers, findUnlistedOrigins } from '../../../run/boot/check-issuers.ts'
import { checkListeners, findIdlePreflights } from '../../../run/boot/check-listeners.ts'

type CheckOptions = PolicySource & Readonly<{ strict?: boolean; json?: boolean; all?: boolean }>

export function runCheckPolicy(options: CheckOptions): void {
  const { policy, configuration } = readOrReport(options)
  const warnings = [
    ...lintPolicy(policy),
    ...lintConfiguration(configuration, options.config),
    ...lintWaits(policy.routes, configuration, options.config),
  ]
  const summary = { routes: policy.routes.length, roles: policy.roles.organization.size, warnings }
  if (options.json) process.stdout.write(`${escapeJson({ ...summary, problems: [] })}\n`)
  else process.stdout.write(`${renderWarnings(warnings, options.all === true)}${summarise(summary)}\n`)
  if (options.strict && warnings.length > 0) process.exitCode = 1
}

/** Without a line, since a frame of the configuration may hold secrets. */
const lintConfiguration = (configuration: Configuration | undefined, source: string): readonly Warning[] =>
  configuration
    ? [...findUnlistedOrigins(configuration), ...findIdlePreflights(configuration)].map((message) => ({
        source,
        message,
      }))
    : []

/** Official SDKs wait as long for a whole answer. */
const sdkWaitMs = 600_000

/** Names a limit that was set for all surfaces and ends model calls for which their callers still wait. */
function lintWaits(
  routes: readonly Route[],
  configuration: Configuration | undefined,
  source: string,
): readonly Warning[] {
  const waitMs = configuration?.timeouts.firstByteMs
  if (waitMs === undefined || waitMs >= sdkWaitMs) return []
  const cut = routes.filter(({ surface, timeouts }) => surface === 'model' && timeouts.firstByteMs === undefined)
  if (cut.length === 0) return []
  const message = `timeouts.firstByteMs of ${waitMs} also ends ${count(cut.length, 'model route')} whose SDKs wait ${sdkWaitMs}. Give these routes their own, or leave it out.`
  return [{ source, message }]
}

const summarise = (summary: Readonly<{ routes: number; roles: number; warnings: readonly Warning[] }>): string =>
  `${summary.routes} routes, ${summary.roles} roles, no mistakes, ${summary.warnings.length} warnings`

function readOrReport(options: CheckOptions): ReadPolicy {
  try {
    const read = readPolicy(options)
    if (read.configuration) {
      checkListeners(read.configuration)
      checkIssuers(read.configuration)
      checkScopes(read.configuration, read.policy)
    }
    return read
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

/** A draft of a large API has one or two for each route, among which a rare one would be overlooked. */
const mostOfOneKind = 10
const shownOfManyAlike = 2

function renderWarnings(warnings: readonly Warning[], isAll: boolean): string {
  const kinds = new Map<string, Warning[]>()
  for (const warning of warnings) {
    const kind = isAll ? 'any' : nameKind(warning)
    kinds.set(kind, [...(kinds.get(kind) ?? []), warning])
  }
  return [...kinds.values()]
    .flatMap((alike) => {
      if (isAll || alike.length <= mostOfOneKind) return alike.map(renderWarning)
      const more = alike.length - shownOfManyAlike
      return [
        ...alike.slice(0, shownOfManyAlike).map(renderWarning),
        `… and ${more} more of this kind; --all shows each\n`,
      ]
    })
    .join('')
}

/** Warnings of one kind differ in names, parameters, paths and numbers alone. */
const nameKind = ({ message }: Warning): string =>
  message
    .replace(/"[^"]*"/g, '"…"')
    .replace(/(?<= )(?::\w+|\*)/g, ':…')
    .replace(/(?<= )\/\S*/g, '/…')
    .replace(/\d+/g, '0')

function renderWarning({ source, message }: Warning): string {
  const [, file, line] = /^(.*):(\d+)$/.exec(source) ?? []
  const frame = file === undefined ? '' : renderFrame({ file, line: Number(line) })
  return `${source}: ${paintWarning('warning:', process.stdout)} ${escapeControls(message)}\n${frame}`
}

type SourceLocation = Readonly<{ file: string; line: number; column?: number | undefined }>

// The key that a line belongs to mostly stands above it.
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
