import { stringify } from 'yaml'
import type { JsonValue } from '../support/client.ts'
import type { SchemaKey } from './schema-keys.ts'

/** The comment that tells a generated page from a written one. */
export const generatedMark = '<!-- Written by `npm run reference`; change the sources instead. -->'

/** The head of every generated page. */
export const composeHead = (title: string, introduction: string): string =>
  `# ${title}\n\n${generatedMark}\n\n${introduction}\n`

/** A table; bars within cells would end them. */
export const composeTable = (header: readonly string[], rows: readonly (readonly string[])[]): string =>
  [header, header.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |\n`)
    .join('')

export const code = (text: string): string => `\`${text}\``

/** The keys of one section, it and all below. */
export const composeKeys = (key: SchemaKey): string =>
  composeTable(
    ['Key', 'Type', 'Default', 'Meaning', 'Example'],
    flatten(key).map(({ path, type, isRequired, defaultValue, description, example }) => [
      code(path),
      type,
      isRequired ? 'required' : writeValue(defaultValue),
      description ?? '',
      writeValue(example),
    ]),
  )

const flatten = (key: SchemaKey): readonly SchemaKey[] => [key, ...key.children.flatMap(flatten)]

const writeValue = (value: JsonValue): string => {
  if (value === undefined || (typeof value === 'object' && Object.keys(value).length === 0)) return ''
  return code(typeof value === 'string' && value !== '' ? value : JSON.stringify(value))
}

/** Fenced YAML. */
export const composeYaml = (value: JsonValue): string => `\`\`\`yaml\n${stringify(value, { lineWidth: 0 })}\`\`\`\n`
