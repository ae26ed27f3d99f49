import type { Policy } from '../../policy/compile.ts'
import { UsageError } from '../failure.ts'
import { disarm, formatTable } from '../format-table.ts'
import { type CallerWords, findUnknown, imagineFromWords } from './caller-words.ts'
import { chooseFormat, type FormatOptions } from './choose-format.ts'
import { type Explanation, explain } from './explain.ts'
import { formatMatrix, matrixFormats } from './format-matrix.ts'
import type { Imagined } from './imagine-caller.ts'
import { lintPolicy } from './lint.ts'
import { buildMatrix } from './matrix.ts'
import { type PolicySource, readPolicy } from './read-policy.ts'

type CheckOptions = PolicySource & Readonly<{ strict?: boolean; json?: boolean }>

/** Finds every mistake, and says what is seldom meant. With `--strict` a warning ends with 1. */
export function runCheckPolicy(options: CheckOptions): void {
  const { policy } = readPolicy(options)
  const warnings = lintPolicy(policy)
  const summary = { routes: policy.routes.length, roles: policy.roles.organization.size, warnings }
  if (options.json) process.stdout.write(`${JSON.stringify(summary)}\n`)
  else {
    for (const { source, message } of warnings) process.stdout.write(`${source}: warning: ${disarm(message)}\n`)
    process.stdout.write(`${summary.routes} routes, ${summary.roles} roles, no mistakes, ${warnings.length} warnings\n`)
  }
  if (options.strict && warnings.length > 0) process.exitCode = 1
}

/** Prints who may do what, for every route, role and credential. */
export function runMatrix(options: PolicySource & FormatOptions): void {
  const format = chooseFormat(options, matrixFormats)
  process.stdout.write(formatMatrix(buildMatrix(readPolicy(options).policy), format))
}

type ExplainOptions = PolicySource &
  Readonly<{
    role?: string
    platformRole: readonly string[]
    scope?: string
    ability: readonly string[]
    agent: string
    host: string
    anonymous?: boolean
    json?: boolean
  }>

/** Says what a request would get and why. Exit code 1 where it would be refused. */
export function runExplain(method: string, target: string, options: ExplainOptions): void {
  const { policy } = readPolicy(options)
  const caller = options.anonymous ? undefined : imagineFrom(options, policy)
  const explanation = explain(policy, { method: method.toUpperCase(), target, host: options.host, caller })
  if (options.json) process.stdout.write(`${JSON.stringify(explanation)}\n`)
  else process.stdout.write(describe(explanation))
  if (explanation.outcome !== 'allowed') process.exitCode = 1
}

function imagineFrom(options: ExplainOptions, { roles }: Policy): Imagined {
  const { role, platformRole: platformRoles, scope, ability, agent } = options
  if (agent !== 'own' && agent !== 'public' && agent !== 'foreign')
    throw new UsageError('--agent is one of own, public, foreign')
  const words: CallerWords = { role, platformRoles, scope, agent, ...(ability.length > 0 && { abilities: ability }) }
  const [unknown] = findUnknown(words, roles)
  if (unknown !== undefined) throw new UsageError(unknown)
  return imagineFromWords(words, roles)
}

function describe({ status, outcome, route, source, checks }: Explanation): string {
  const rows = checks.map(({ check, isPassed, why }) => [check, isPassed ? 'hit' : 'miss', why])
  const verdict = outcome === 'allowed' ? 'allowed' : `refused: ${status} ${outcome}`
  const where = route === undefined ? '' : `, by route ${route} (${source})`
  return `${formatTable(['check', '', 'why'], rows)}\n${disarm(`${verdict}${where}`)}\n`
}
