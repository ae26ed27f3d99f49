import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { Ajv2020, ValidateFunction } from 'ajv/dist/2020.js'
import { packageRoot } from '../base/lib/package-root.ts'

type Options = Readonly<{ coerceTypes?: boolean }>

const require = createRequire(import.meta.url)

const validators = new Map<string, ValidateFunction>()

/** Compiles a JSON Schema that ships with the package; `coerceTypes` for values that come as text, from the environment. */
export function compileSchema(file: URL, { coerceTypes = false }: Options = {}): ValidateFunction {
  const key = `${file.href} ${coerceTypes}`
  const validate = validators.get(key) ?? findValidator(readFileSync(file, 'utf8'), { coerceTypes })
  validators.set(key, validate)
  return validate
}

/** A build has validators of these very texts, since compiling takes a third of a start. */
function findValidator(text: string, options: Options): ValidateFunction {
  const built = fileURLToPath(new URL(`dist/schemas/${nameValidator(text, options)}`, packageRoot))
  return existsSync(built) ? require(built) : createCompiler(options).compile(JSON.parse(text))
}

export function nameValidator(text: string, { coerceTypes = false }: Options): string {
  return `${createHash('sha256').update(text).digest('hex')}${coerceTypes ? '-coerce' : ''}.cjs`
}

export function createCompiler({ coerceTypes = false }: Options): Ajv2020 {
  const { Ajv2020 }: typeof import('ajv/dist/2020.js') = require('ajv/dist/2020.js')
  const rules = { strict: true, allErrors: true, useDefaults: true, allowUnionTypes: true, coerceTypes }
  // `verbose` gives the schema around each violation, for its words.
  const ajv = new Ajv2020({ ...rules, verbose: true, code: { source: true } })
  // Editors say this instead of a regular expression, too (vscode-json-languageservice).
  ajv.addKeyword('patternErrorMessage')
  return ajv
}
