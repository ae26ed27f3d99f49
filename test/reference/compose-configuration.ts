import type { JsonValue } from '../support/client.ts'
import { code, composeHead, composeKeys, composeYaml } from './markdown.ts'
import { listKeys, readSchema, type SchemaKey } from './schema-keys.ts'

const introduction = `Every key of \`gateway.yaml\`, from its [schema](../../config/gateway.schema.json). [Configuration](../guides/configure.md)
says which guide explains which section. Any text may hold \`\${NAME}\` or \`\${NAME:-default}\` from the environment. The content of
a file replaces a text that starts with \`file:\`. Paths are relative to the configuration file. Each section ends with all of
its keys in YAML, with their defaults or else examples.`

/** The page of all configuration keys. */
export const composeConfiguration = (): string =>
  `${composeHead('Configuration keys', introduction)}${listKeys(readSchema('config/gateway.schema.json')).map(composeSection).join('')}`

const composeSection = (key: SchemaKey): string =>
  `\n## ${code(key.path)}\n\n${composeKeys(key)}\n${composeYaml({ [key.path]: exemplify(key) })}`

/** A file has either this or another key of the section, which is shown. */
const isAlternative = (path: string): boolean => ['upstreams.<name>.url', 'transmitters[].push'].includes(path)

/** A value as it could stand in a file. */
export function exemplify(key: SchemaKey): JsonValue {
  if (key.example !== undefined) return key.example
  if (key.children.length === 0) return key.defaultValue
  const below = Object.fromEntries(
    key.children
      .filter(({ path }) => !isAlternative(path))
      .map((child) => [child.path.split('.').at(-1), exemplify(child)])
      .filter(([, value]) => value !== undefined),
  )
  const first = key.children[0]?.path ?? ''
  if (first.startsWith(`${key.path}[]`)) return [below]
  if (first.startsWith(`${key.path}.<name>`)) return { platform: below }
  // The default of the section as a whole wins: three listeners cannot share a port.
  return { ...below, ...key.defaultValue }
}
