import { ConfigurationError, type Problem } from '../../policy/configuration-error.ts'
import { parseYaml, type YamlFile } from '../../policy/document.ts'
import { parsePattern } from '../../policy/route.ts'

export type Operation = Readonly<{
  method: string
  template: string
  pattern: string
  /** The pattern takes more paths than the template, because its parameter is a whole segment. */
  isWider: boolean
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
