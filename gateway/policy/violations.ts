import type { ErrorObject } from 'ajv/dist/2020.js'
import { findNearName, suggestName } from './near-name.ts'

export type Violation = Readonly<{ path: readonly string[]; isKey: boolean; message: string }>

type Annotated = Readonly<{
  properties?: Readonly<Record<string, Annotated>>
  examples?: readonly unknown[]
  patternErrorMessage?: string
}>

type Params = Readonly<Record<string, unknown>>

/** Puts violations into words that say what to write. No message quotes a value: it may be a secret. */
export function describeViolations(errors: readonly ErrorObject[]): readonly Violation[] {
  const told = errors.filter((error) => !summaries.has(error.keyword))
  const misspelt = new Set(told.map(nameMeant).filter((key) => key !== undefined))
  return joinBranches(told)
    .filter((error) => !misspelt.has(`${error.instancePath}/${(error.params as Params).missingProperty}`))
    .map(describe)
}

const summaries: ReadonlySet<string> = new Set(['if', 'propertyNames'])

function nameMeant({ instancePath, params, parentSchema }: ErrorObject): string | undefined {
  const { additionalProperty } = params as Params
  if (typeof additionalProperty !== 'string') return undefined
  const near = findNearName(additionalProperty, Object.keys((parentSchema as Annotated).properties ?? {}))
  return near === undefined ? undefined : `${instancePath}/${near}`
}

/**
 * Joins the errors of `oneOf`: those of the schema whose type the value has stay. A value of another type gets one error,
 * with the alternatives in `params`.
 */
function joinBranches(errors: readonly ErrorObject[]): readonly ErrorObject[] {
  const joined = errors.filter(({ keyword }) => keyword === 'oneOf')
  return errors.flatMap((error) => {
    const owner = joined.find((one) => isBranch(error, one))
    const one = owner ?? error
    if (one.keyword !== 'oneOf') return [error]
    const branches = errors.filter((branch) => isBranch(branch, one))
    const isAlternative = ({ keyword, instancePath }: ErrorObject): boolean =>
      (keyword === 'type' || keyword === 'enum') && instancePath === one.instancePath
    const parts = branches.filter((branch) => !isAlternative(branch))
    if (owner) return parts.includes(error) ? [error] : []
    if (parts.length > 0) return []
    const alternatives = branches.map(({ params }) => {
      const { allowedValues, type } = params as Params
      return Array.isArray(allowedValues) ? allowedValues.join(' or ') : nameType(String(type), '')
    })
    return [{ ...error, params: { alternatives } }]
  })
}

const isBranch = (error: ErrorObject, one: ErrorObject): boolean =>
  error.schemaPath.startsWith(`${one.schemaPath}/`) && `${error.instancePath}/`.startsWith(`${one.instancePath}/`)

function describe(error: ErrorObject): Violation {
  const { instancePath, keyword, propertyName } = error
  const { additionalProperty } = error.params as Params
  const above = instancePath.split('/').slice(1).map(unescapePointer)
  const key = additionalProperty ?? propertyName
  const isKey = typeof key === 'string'
  const path = isKey ? [...above, key] : above
  const subject = (typeof additionalProperty === 'string' ? above : path).join('.')
  const message = explain(error, path)
  if (subject === '' && keyword === 'required')
    return { path: [String((error.params as Params).missingProperty)], isKey, message: `the file ${message}` }
  return { path, isKey, message: `${subject || (isKey ? 'the file' : '')} ${message}`.trimStart() }
}

function explain(error: ErrorObject, path: readonly string[]): string {
  const { keyword } = error
  const params = error.params as Params
  const schema = error.parentSchema as Annotated
  if (schema.patternErrorMessage !== undefined) return schema.patternErrorMessage
  switch (keyword) {
    case 'additionalProperties':
      return explainUnknown(String(params.additionalProperty), path, schema)
    case 'type':
      return `must be ${nameType(String(params.type), path.at(-1) ?? '')}${suchAs(schema)}`
    case 'oneOf':
      return `must be ${(params.alternatives as readonly string[]).join(', or ')}${suchAs(schema)}`
    case 'enum':
      return explainEnum(error.data, params.allowedValues as readonly unknown[])
    case 'required':
      return `lacks "${params.missingProperty}"; add it${suchAs(schema.properties?.[String(params.missingProperty)], `${params.missingProperty}: `)}`
    case 'dependentRequired':
      return `has "${params.property}" without "${params.missingProperty}"; add it, or leave both out`
    case 'minProperties':
      return `must have at least one of ${Object.keys(schema.properties ?? {}).join(', ')}`
    case 'minItems':
      return `must list at least ${params.limit === 1 ? 'one entry' : `${params.limit} entries`}`
    case 'maxItems':
      return `must list at most ${params.limit} entries`
    case 'uniqueItems':
      return `lists an entry twice (numbers ${Number(params.j) + 1} and ${Number(params.i) + 1}); remove one`
    case 'minLength':
      return 'must not be empty'
    case 'minimum':
      return `must be at least ${params.limit}`
    case 'maximum':
      return `must be at most ${params.limit}`
    case 'const':
      return `must be ${JSON.stringify(params.allowedValue)}`
    default:
      return error.message ?? 'is not valid'
  }
}

function explainUnknown(key: string, path: readonly string[], { properties = {} }: Annotated): string {
  const place = path.join('.')
  const renamed = renamedKeys.find(([old]) => old.test(place))
  if (renamed) return `does not know "${key}"; it is called "${renamed[1]}" now`
  return `does not know "${key}"; ${suggestName(key, Object.keys(properties))}`
}

function explainEnum(data: unknown, allowed: readonly unknown[]): string {
  const near = typeof data === 'string' ? findNearName(data, allowed.map(String)) : undefined
  return `must be one of ${allowed.join(', ')}${near === undefined ? '' : `; did you mean "${near}"?`}`
}

function suchAs(schema: Annotated | undefined, before = ''): string {
  const [example] = schema?.examples ?? []
  if (example === undefined) return ''
  return `, such as ${before}${typeof example === 'string' ? example : JSON.stringify(example)}`
}

function nameType(types: string, key: string): string {
  const [, unit] = /(Ms|Seconds|Bytes)$/.exec(key) ?? []
  return types
    .split(',')
    .map((type) => (type === 'integer' && unit !== undefined ? units[unit] : typeNames[type]) ?? type)
    .join(' or ')
}

const units: Readonly<Record<string, string>> = {
  Ms: 'a whole number of milliseconds without a unit, such as 5000',
  Seconds: 'a whole number of seconds without a unit, such as 60',
  Bytes: 'a whole number of bytes without a unit, such as 65536',
}

const typeNames: Readonly<Record<string, string>> = {
  integer: 'a whole number',
  number: 'a number',
  string: 'a text',
  boolean: 'true or false',
  object: 'a section of keys and values',
  array: 'a list',
}

/** Keys of configuration and policy that had another name, by where they stood. */
const renamedKeys: readonly (readonly [old: RegExp, name: string])[] = [
  [/^rateLimits\.[^.]+\.onTrouble$/, 'onError'],
  [/^redis\.hearsEveryWriter$/, 'allWritersPublish'],
  [/^limits\.bodyBytesPerSecond$/, 'minBodyBytesPerSecond'],
  [/^limits\.answerBytesPerSecond$/, 'minResponseBytesPerSecond'],
]

// Array positions arrive as digits; `yaml` looks up both kinds of key with a string.
const unescapePointer = (part: string): string => part.replaceAll('~1', '/').replaceAll('~0', '~')
