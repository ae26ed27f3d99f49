import { readFileSync } from 'node:fs'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'

/** By file and rules: a schema that ships with the package does not change. */
const compiled = new Map<string, ValidateFunction>()

/** Compiles a JSON Schema that ships with the package; `coerceTypes` for values that come as text, from the environment. */
export function compileSchema(file: URL, { coerceTypes = false } = {}): ValidateFunction {
  const key = `${file.href} ${coerceTypes}`
  const known = compiled.get(key)
  if (known) return known
  const rules = { strict: true, allErrors: true, useDefaults: true, allowUnionTypes: true, coerceTypes }
  // `verbose` gives the schema around each violation, for its words.
  const ajv = new Ajv2020({ ...rules, verbose: true })
  // Editors say this instead of a regular expression, too (vscode-json-languageservice).
  ajv.addKeyword('patternErrorMessage')
  const validate = ajv.compile(JSON.parse(readFileSync(file, 'utf8')))
  compiled.set(key, validate)
  return validate
}
