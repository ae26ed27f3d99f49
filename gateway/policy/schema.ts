import { readFileSync } from 'node:fs'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'

/** Compiles a schema of the package. `coerceTypes` is for environment variables, which are all text. */
export function compileSchema(file: URL, { coerceTypes = false } = {}): ValidateFunction {
  const ajv = new Ajv2020({ strict: true, allErrors: true, useDefaults: true, allowUnionTypes: true, coerceTypes })
  return ajv.compile(JSON.parse(readFileSync(file, 'utf8')))
}
