import { ConfigurationError, type Problem } from '../../policy/configuration-error.ts'
import { parseYaml, type YamlFile } from '../../policy/document.ts'
import { parsePattern } from '../../policy/route.ts'

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

/** The path of the first server, without a slash at its end: what stands before every path of the description. */
function chooseBase(servers: unknown): string {
  const [first] = Array.isArray(servers) ? servers : []
  const { url, variables } = asFields(first)
  if (typeof url !== 'string') return ''
  const filled = url.replace(/\{([^{}]*)\}/g, (_, name: string) => {
    const { default: value } = asFields(asFields(variables)[name])
    if (value === undefined) throw new Error(`the variable "${name}" of servers[0].url has no default; name --base`)
    return String(value)
  })
  // Relative to where the description itself is served, of which nothing is known but that it is some host.
  if (!URL.canParse(filled, 'http://localhost/')) throw new Error('servers[0].url is no URL; name --base')
  return new URL(filled, 'http://localhost/').pathname.replace(/\/$/, '')
}

/** The policy pattern that takes a template's requests; wider where a parameter is but a part of a segment. */
function toPattern(base: string, template: string): Readonly<{ pattern: string; isWider: boolean }> {
  if (/[?#]/.test(template)) throw new Error('a path holds no query or fragment')
  const names = new Set<string>()
  let isWider = false
  const segments = `${base}${template}`
    .slice(1)
    .split('/')
    .map((segment) => {
      const [, name] = /\{([^{}]*)\}/.exec(segment) ?? []
      if (name === undefined) return spellLiteral(segment)
      if (segment !== `{${name}}`) isWider = true
      return `:${chooseName(name, names)}`
    })
  return { pattern: `/${segments.join('/')}`, isWider }
}

/** What a pattern would take for something else, or a request never holds, is escaped; escapes stay. */
const spellLiteral = (segment: string): string =>
  segment
    .replace(/%(?![0-9a-f]{2})|[^\w!$&'()*+,.:;=@~%-]/giu, encodeURIComponent)
    .replace(/^[:*]/, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)

function chooseName(wish: string, taken: Set<string>): string {
  const plain = wish.replace(/\W/g, '_').replace(/^(?=\d|$)/, 'p')
  let name = plain
  for (let count = 2; taken.has(name); count++) name = `${plain}_${count}`
  taken.add(name)
  return name
}

type Fields = Readonly<Record<string, unknown>>

/** The object that a value of a description is; anything else has no keys. */
const asFields = (value: unknown): Fields =>
  // Every object has keys, and of what they hold nothing is believed.
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
