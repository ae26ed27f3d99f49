import { disarm } from '../format-table.ts'
import { chooseFormat, type FormatOptions } from './choose-format.ts'
import { formatMatrix, matrixFormats } from './format-matrix.ts'
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
