// OpenAPI descriptions against a policy: which operations no route serves, and a draft of routes for them.
import { ConfigurationError, type Problem } from '../../policy/configuration-error.ts'
import { parseYaml, type YamlFile } from '../../policy/document.ts'
import { parsePattern } from '../../policy/route.ts'
import { maySplit, takesSlashes } from './may-split.ts'

export type Operation = Readonly<{
  method: string
  template: string
  pattern: string
  /** The pattern takes more paths than the template, because its parameter is a whole segment. */
  isWider: boolean
  /** A parameter that may hold several segments and is not the last, so that no pattern takes the paths. */
  split: string | undefined
  id: string | undefined
  isOpen: boolean
  place: string
}>

const methodKeys = ['get', 'head', 'post', 'put', 'patch', 'delete', 'options', 'trace']

/**
 * Reads OpenAPI 3 in YAML or JSON. `base` replaces the path of `servers`. Throws `ConfigurationError` with every
 * problem and its place.
 */
export function readOperations(name: string, text: string, base: string | undefined): readonly Operation[] {
  const yaml = parseYaml(name, text)
  const root = asFields(yaml.document.toJS())
  if (!/^3\.\d/.test(String(root.openapi)))
    throw new ConfigurationError([
      yaml.problemAt(['openapi'], 'is not an OpenAPI 3 description: "openapi" must be 3.x'),
    ])
  const problems: Problem[] = []
  const operations = Object.entries(asFields(root.paths)).flatMap(([path, value]) => {
    if (path.startsWith('x-')) return []
    const item = resolveItem(root, value)
    if (item) return readItem(yaml, root, path, item, base, problems)
    problems.push(
      yaml.problemAt(['paths', path], 'the $ref leads out of this file. Bundle the description into one file.'),
    )
    return []
  })
  if (problems.length > 0) throw new ConfigurationError(problems)
  return operations
}

/** A path item may be a reference within the description (OpenAPI 3.1, "Path Item Object"). */
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

/** A pointer in a fragment is percent-encoded (RFC 6901, section 6); a bad escape finds nothing. */
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
      const parameters = listParameters(root, item, operation)
      const { pattern, isWider, split } = toPattern(front, path, (name) =>
        maySplit(name, ...(parameters.get(name) ?? [])),
      )
      parsePattern(pattern)
      const { file, line, column } = yaml.problemAt(at, '')
      const { operationId } = operation
      return {
        method: key.toUpperCase(),
        template: `${front}${path}`,
        pattern,
        isWider,
        split,
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

/** Each with its schemas. Those of the operation go before those of the path (OpenAPI 3.1, "Operation Object"). */
function listParameters(root: Fields, item: Fields, operation: Fields): ReadonlyMap<string, readonly Fields[]> {
  const listed = [item.parameters, operation.parameters].flatMap((list) => (Array.isArray(list) ? list : []))
  const resolved = listed.map((one: unknown): Fields => resolveItem(root, one) ?? {})
  return new Map(
    resolved.flatMap((one): readonly (readonly [string, readonly Fields[]])[] =>
      one.in === 'path' && typeof one.name === 'string' ? [[one.name, [one, ...listSchemas(root, one.schema)]]] : [],
    ),
  )
}

/** Composed schemas of a text are hardly deeper, and one may contain itself. */
const mostDepth = 4

function listSchemas(root: Fields, value: unknown, depth = 0): readonly Fields[] {
  const schema = depth < mostDepth && value !== undefined ? resolveItem(root, value) : undefined
  if (!schema) return []
  const parts = [schema.allOf, schema.anyOf, schema.oneOf].flatMap((list) => (Array.isArray(list) ? list : []))
  return [schema, ...parts.flatMap((part: unknown) => listSchemas(root, part, depth + 1))]
}

const asksForNothing = (security: unknown): boolean =>
  Array.isArray(security) &&
  (security.length === 0 || security.some((choice) => Object.keys(asFields(choice)).length === 0))

function chooseBase(servers: unknown): string {
  const [first] = Array.isArray(servers) ? servers : []
  const { url, variables } = asFields(first)
  if (typeof url !== 'string') return ''
  const filled = url.replace(/\{([^{}]*)\}/g, (_, name: string) => {
    const { default: value } = asFields(asFields(variables)[name])
    if (value === undefined) throw new Error(`the variable "${name}" of servers[0].url has no default. Give --base.`)
    return String(value)
  })
  // The URL may be relative to an unknown host, so any host serves as its base.
  if (!URL.canParse(filled, 'http://localhost/')) throw new Error('servers[0].url is not a URL. Give --base.')
  return new URL(filled, 'http://localhost/').pathname.replace(/\/$/, '')
}

type MaySplit = (name: string) => boolean

function toPattern(
  base: string,
  template: string,
  maySplitHere: MaySplit,
): Pick<Operation, 'pattern' | 'isWider' | 'split'> {
  if (/[?#]/.test(template)) throw new Error('a path holds no query or fragment')
  const names = new Set<string>()
  let isWider = false
  let split: string | undefined
  // A slash within braces belongs to the parameter, as in `{name=files/**}` of Google's APIs.
  const parts = `${base}${template}`
    .replace(/\{[^{}]*\}/g, (braces) => braces.replaceAll('/', slashWithin))
    .slice(1)
    .split('/')
  const segments = parts.map((segment, index) => {
    const [, written] = /\{([^{}]*)\}/.exec(segment) ?? []
    if (written === undefined) return spellLiteral(segment)
    const [name = ''] = /^(?:(?!\.{3}$)[^=:+*])*/.exec(written) ?? []
    if (segment !== `{${written}}`) isWider = true
    const isSplit = mayHoldSlashes(written.slice(name.length)) || maySplitHere(name)
    if (isSplit && index === parts.length - 1) return '*'
    if (isSplit) split ??= name
    return `:${chooseName(name, names)}`
  })
  return { pattern: `/${segments.join('/')}`, isWider, split }
}

const slashWithin = '\0'

/**
 * Modifiers behind a name: `+` of RFC 6570 and AWS, `*`, `...` of Go, `=**` of Google's APIs, or an expression after a
 * colon.
 */
function mayHoldSlashes(modifier: string): boolean {
  if (modifier === '' || modifier === '=*') return false
  if (modifier.startsWith(':')) return modifier === ':path' || takesSlashes(modifier.slice(1))
  return true
}

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

const asFields = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {} // every field is `unknown`
