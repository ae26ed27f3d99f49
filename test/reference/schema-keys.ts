import { readFileSync } from 'node:fs'
import type { JsonValue } from '../support/client.ts'

/** One key of a schema: where it may stand, and what is said of it. */
export type SchemaKey = Readonly<{
  /** `issuers[].audience`, `upstreams.<name>.url`. */
  path: string
  description: string | undefined
  type: string
  isRequired: boolean
  defaultValue: JsonValue
  example: JsonValue
  children: readonly SchemaKey[]
}>

const root = new URL('../../', import.meta.url)

/** A schema that ships with the package, as plain data. */
export const readSchema = (file: string): JsonValue => JSON.parse(readFileSync(new URL(file, root), 'utf8'))

/** Every key below a schema, in its order; references are followed. */
export const listKeys = (schema: JsonValue): readonly SchemaKey[] => describe(schema, schema, '', '').children

function describe(root: JsonValue, written: JsonValue, path: string, name: string, isRequired = false): SchemaKey {
  const schema = resolve(root, written)
  const item = resolve(root, schema.items ?? {})
  const values = typeof schema.additionalProperties === 'object' ? resolve(root, schema.additionalProperties) : {}
  return {
    path: path + name,
    description: schema.description,
    type: nameType(root, schema),
    isRequired,
    defaultValue: schema.default,
    example: schema.examples?.[0],
    children: [
      ...describeProperties(root, schema, path + name),
      ...(item.properties ? describeProperties(root, item, `${path}${name}[]`) : []),
      // A form without words of its own is told by the key above it.
      ...(schema.oneOf ?? [])
        .flatMap((option: JsonValue) => describeProperties(root, resolve(root, option), path + name))
        .filter(({ description }: SchemaKey) => description !== undefined),
      ...(values.properties ? describeProperties(root, values, `${join(path + name)}<name>`) : []),
    ],
  }
}

const describeProperties = (root: JsonValue, schema: JsonValue, path: string): readonly SchemaKey[] =>
  Object.entries<JsonValue>(schema.properties ?? {}).map(([name, property]) =>
    describe(root, property, join(path), name, schema.required?.includes(name) === true),
  )

const join = (path: string): string => (path === '' ? '' : `${path}.`)

/** A key beside a reference wins over the referenced one. */
function resolve(root: JsonValue, schema: JsonValue): JsonValue {
  const [, ...names] = schema.$ref?.split('/') ?? []
  return names.length === 0
    ? schema
    : { ...names.reduce((part: JsonValue, name: string) => part[name], root), ...schema }
}

function nameType(root: JsonValue, schema: JsonValue): string {
  if (schema.enum) return schema.enum.map((value: JsonValue) => `\`${value}\``).join(' or ')
  if (schema.const !== undefined) return `\`${schema.const}\``
  if (schema.oneOf) return schema.oneOf.map((option: JsonValue) => nameType(root, option)).join(' or ')
  if (schema.if && schema.else && schema.type === undefined)
    return `${nameType(root, schema.if)} or ${nameType(root, schema.else)}`
  if (schema.type === 'array') return `list of ${nameType(root, resolve(root, schema.items))}`
  if (schema.type === 'object') {
    if (schema.properties) return 'section'
    return `${nameType(root, resolve(root, schema.additionalProperties))} by name`
  }
  const { minimum, maximum } = schema
  if (minimum === undefined) return schema.type
  return maximum === undefined ? `${schema.type}, from ${minimum}` : `${schema.type}, ${minimum} to ${maximum}`
}
