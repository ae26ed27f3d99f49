import { ConfigurationError, type Problem } from '../../policy/configuration-error.ts'
import { parseYaml, type YamlFile } from '../../policy/document.ts'
import { parsePattern } from '../../policy/route.ts'
import { chooseBase } from './choose-base.ts'
import { asFields, type Fields } from './fields.ts'
import { toPattern } from './to-pattern.ts'

/** What an API description says of one method at one path. */
export type Operation = Readonly<{
  method: string
  /** As described, with the base path in front. */
  template: string
  /** The policy pattern that takes its requests. */
  pattern: string
  /** A pattern's parameter is a whole segment; then it takes more than the template says. */
  isWider: boolean
  id: string | undefined
  /** The description asks for no credential. */
  isOpen: boolean
  /** file:line:column */
  place: string
}>

const methodKeys = ['get', 'head', 'post', 'put', 'patch', 'delete', 'options', 'trace']

/**
 * Reads an OpenAPI 3 description, YAML or JSON. `base` stands before every path, instead of what `servers` say. Throws
 * `ConfigurationError` with every problem and its place.
 */
export function readOperations(name: string, text: string, base: string | undefined): readonly Operation[] {
  const yaml = parseYaml(name, text)
  const root = asFields(yaml.document.toJS())
  if (!/^3\.\d/.test(String(root.openapi)))
    throw new ConfigurationError([yaml.problemAt(['openapi'], 'is no OpenAPI 3 description: "openapi" must be 3.x')])
  const problems: Problem[] = []
  const operations = Object.entries(asFields(root.paths)).flatMap(([path, value]) => {
    if (path.startsWith('x-')) return []
    const item = resolveItem(root, value)
    if (item) return readItem(yaml, root, path, item, base, problems)
    problems.push(
      yaml.problemAt(['paths', path], 'the $ref leads nowhere in this file; bundle the description into one'),
    )
    return []
  })
  if (problems.length > 0) throw new ConfigurationError(problems)
  return operations
}

/** A path item may stand elsewhere in the same description (OpenAPI 3.1, "Path Item Object"). */
function resolveItem(root: Fields, value: unknown): Fields | undefined {
  const item = asFields(value)
  const { $ref: reference } = item
  if (typeof reference !== 'string') return item
  if (!reference.startsWith('#/')) return undefined
  const found = reference
    .slice(2)
    .split('/')
    .map((part) => unescapePart(part).replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<unknown>((within, key) => asFields(within)[key], root)
  return found === undefined ? undefined : { ...asFields(found), ...item }
}

/** A pointer in a fragment is escaped like the rest of a URL (RFC 6901, section 6); a bad escape finds nothing. */
function unescapePart(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

function readItem(
  yaml: YamlFile,
  root: Fields,
  path: string,
  item: Fields,
  base: string | undefined,
  problems: Problem[],
): readonly Operation[] {
  return methodKeys.flatMap((key) => {
    if (item[key] === undefined) return []
    const operation = asFields(item[key])
    const at = ['paths', path, key]
    try {
      const front = base ?? chooseBase(operation.servers ?? item.servers ?? root.servers)
      const { pattern, isWider } = toPattern(front, path)
      parsePattern(pattern)
      const { file, line, column } = yaml.problemAt(at, '')
      const { operationId } = operation
      return {
        method: key.toUpperCase(),
        template: `${front}${path}`,
        pattern,
        isWider,
        id: typeof operationId === 'string' ? operationId : undefined,
        isOpen: asksForNothing(operation.security ?? root.security),
        place: `${file}:${line}:${column}`,
      }
    } catch (error) {
      problems.push(yaml.problemAt(at, (error as Error).message))
      return []
    }
  })
}

/** An empty list, or a choice among several of which one is nothing. */
const asksForNothing = (security: unknown): boolean =>
  Array.isArray(security) &&
  (security.length === 0 || security.some((choice) => Object.keys(asFields(choice)).length === 0))
