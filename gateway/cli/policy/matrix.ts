import { buildMatrix } from '../../analyze/matrix.ts'
import { type PolicySource, readPolicy } from '../../analyze/read-policy.ts'
import { formatMatrix, matrixFormats } from './format-matrix.ts'
import { chooseFormat, type FormatOptions } from './format-option.ts'

/** Prints who may do what, for every route, role and credential. */
export function runMatrix(options: PolicySource & FormatOptions): void {
  const format = chooseFormat(options, matrixFormats)
  process.stdout.write(formatMatrix(buildMatrix(readPolicy(options).policy), format))
}
