import { chooseFormat, type FormatOptions } from './choose-format.ts'
import { formatMatrix, matrixFormats } from './format-matrix.ts'
import { buildMatrix } from './matrix.ts'
import { type PolicySource, readPolicy } from './read-policy.ts'

/** Prints who may do what, for every route, role and credential. */
export function runMatrix(options: PolicySource & FormatOptions): void {
  const format = chooseFormat(options, matrixFormats)
  process.stdout.write(formatMatrix(buildMatrix(readPolicy(options).policy), format))
}
