import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import type { JsonValue } from '../support/client.ts'
import { readSchema } from './schema-keys.ts'

/** Compiles a schema for parts of a file: what a whole one requires may be missing. */
function compileForParts(file: string): ValidateFunction {
  const { required: _required, if: _if, then: _then, else: _else, ...schema } = readSchema(file)
  const ajv = new Ajv2020({ strict: true, allErrors: true, allowUnionTypes: true, coerceTypes: true })
  return ajv.addKeyword('patternErrorMessage').compile(schema)
}

const schemas = ['config/gateway.schema.json', 'policies/policy.schema.json', 'policies/policy-test.schema.json'].map(
  (file) => ({ keys: new Set(Object.keys(readSchema(file).properties)), validate: compileForParts(file) }),
)

/** Keys by which the files of other programs are known. */
const foreign = new Set(['apiVersion', 'static_resources', 'http_filters', 'extensionProviders', 'entryPoints', 'http'])

/**
 * The mistakes of a document of YAML, as sentences. It must be part of a configuration, of policies or expectations, or
 * a file of a known program.
 */
export function findMistakes(written: JsonValue): readonly string[] {
  // A bare list stands for the routes.
  const value = Array.isArray(written) ? { routes: written } : written
  const names = Object.keys(value)
  if (names.some((name) => foreign.has(name))) return []
  const schema = schemas.find(({ keys }) => names.some((name) => keys.has(name)))
  if (!schema) return [`is of no kind that is known: ${names.join(', ')}`]
  if (schema.validate(value)) return []
  return (schema.validate.errors ?? [])
    .filter(({ instancePath }) => !isFromOutside(value, instancePath))
    .map(({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`)
}

/** A value from the environment or a file may become anything. */
function isFromOutside(value: JsonValue, pointer: string): boolean {
  const found = pointer
    .split('/')
    .slice(1)
    .reduce((part: JsonValue, name) => part?.[name], value)
  return typeof found === 'string' && /\$\{|^file:/.test(found)
}
