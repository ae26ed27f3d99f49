import { readFileSync } from 'node:fs'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'

/** Compiles a JSON Schema that ships with the package; `coerceTypes` for values that come as text, from the environment. */
export function compileSchema(file: URL, { coerceTypes = false } = {}): ValidateFunction {
  const ajv = new Ajv2020({ strict: true, allErrors: true, useDefaults: true, allowUnionTypes: true, coerceTypes })
  return ajv.compile(JSON.parse(readFileSync(file, 'utf8')))
}
