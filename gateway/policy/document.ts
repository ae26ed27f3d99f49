import type { ErrorObject, ValidateFunction } from 'ajv/dist/2020.js'
import { type Document, isNode, isScalar, LineCounter, parseDocument, visit } from 'yaml'
import { ConfigurationError, type Problem } from './configuration-error.ts'

export type Path = readonly (string | number)[]

export type YamlFile = Readonly<{
  name: string
  document: Document.Parsed
  problemAt: (path: Path, message: string) => Problem
  problemAtOffset: (offset: number, message: string) => Problem
}>

export function parseYaml(name: string, text: string): YamlFile {
  const counter = new LineCounter()
  // Pretty errors would quote the line, and a line of configuration may hold a secret.
  const options = { version: '1.2', uniqueKeys: false, prettyErrors: false, lineCounter: counter } as const
  if (isTooDeep(text)) throw tooDeep(name)
  const document = parseDocument(text, options)
  const placed = (offset: number, message: string): Problem => {
    const { line, col } = counter.linePos(offset)
    return { file: name, line, column: col, message }
  }
  // The package only warns about an unknown tag, and its value would become a string.
  const faults = [...document.errors, ...document.warnings]
  if (faults.length > 0) throw new ConfigurationError(faults.map(({ pos, message }) => placed(pos[0], message)))
  const file: YamlFile = {
    name,
    document,
    problemAt: (path, message) => placed(offsetOf(document, path), message),
    problemAtOffset: placed,
  }
  refuseAmbiguities(file)
  return file
}

const mostDepth = 64
const mostIndent = 512

const tooDeep = (file: string): ConfigurationError =>
  new ConfigurationError([{ file, line: 1, column: 1, message: `is nested more than ${mostDepth} levels deep` }])

/**
 * Whether a text nests deeper than allowed, by brackets, by `- - -` on one line, or by indentation. Checked before
 * parsing, because the package recurses: 8 KiB of `[` fill the stack, and V8 then ends the process as it compiles a
 * pattern.
 */
function isTooDeep(text: string): boolean {
  let brackets = 0
  let indicators = 0
  let column = 0
  let isLeading = true
  for (let index = 0; index < text.length; index++) {
    const character = text[index] ?? ''
    column += 1
    if (character === '\n' || character === '\r') {
      column = 0
      indicators = 0
      isLeading = true
    } else if (character === '[' || character === '{') brackets += 1
    else if (character === ']' || character === '}') brackets = Math.max(0, brackets - 1)
    else if (isLeading && isIndicator(character, text[index + 1])) indicators += 1
    else if (character !== ' ') isLeading = false
    if (brackets > mostDepth || indicators > mostDepth || (isLeading && column > mostIndent)) return true
  }
  return false
}

const isIndicator = (character: string, next = ' '): boolean => '-?:'.includes(character) && ' \t\r\n'.includes(next)

/** Refuses aliases and duplicate keys. The package's own check compares each pair of keys, in quadratic time. */
function refuseAmbiguities(file: YamlFile): void {
  const problems: Problem[] = []
  visit(file.document, {
    Alias: (_, alias) => {
      const message = `aliases (*${alias.source}) are not allowed; write the value out`
      problems.push(file.problemAtOffset(alias.range?.[0] ?? 0, message))
    },
    Map: (_, { items }) => {
      const known = new Set<unknown>()
      for (const { key } of items) {
        const name = isScalar(key) ? key.value : key
        if (known.has(name) && isNode(key))
          problems.push(file.problemAtOffset(key.range?.[0] ?? 0, 'Map keys must be unique'))
        known.add(name)
      }
    },
  })
  if (problems.length > 0) throw new ConfigurationError(problems)
}

export function validateYaml(file: YamlFile, validate: ValidateFunction): unknown {
  const value: unknown = file.document.toJS() ?? {}
  if (validate(value)) return value
  throw new ConfigurationError((validate.errors ?? []).filter(isTelling).map((error) => toProblem(file, error)))
}

const isTelling = ({ keyword }: ErrorObject): boolean => keyword !== 'if'

function toProblem(file: YamlFile, error: ErrorObject): Problem {
  const path = error.instancePath.split('/').slice(1).map(unescapePointer)
  const where = path.length > 0 ? `${path.join('.')} ` : ''
  const { additionalProperty, unevaluatedProperty, allowedValues } = error.params as Record<string, unknown>
  const unknown = additionalProperty ?? unevaluatedProperty
  if (typeof unknown === 'string') {
    const place = [...path, unknown]
    const renamed = renamedKeys.find(([old]) => old.test(place.join('.')))
    if (renamed) return file.problemAt(place, `${where}does not know "${unknown}"; it is called "${renamed[1]}" now`)
    return file.problemAt(place, `${where}does not know "${unknown}"`)
  }
  if (Array.isArray(allowedValues)) return file.problemAt(path, `${where}must be one of ${allowedValues.join(', ')}`)
  return file.problemAt(path, `${where}${error.message ?? 'is invalid'}`)
}

const renamedKeys: readonly (readonly [old: RegExp, name: string])[] = [
  [/^rateLimits\.[^.]+\.onTrouble$/, 'onError'],
  [/^redis\.hearsEveryWriter$/, 'allWritersPublish'],
  [/^limits\.bodyBytesPerSecond$/, 'minBodyBytesPerSecond'],
  [/^limits\.answerBytesPerSecond$/, 'minResponseBytesPerSecond'],
]

// Array positions arrive as digits; `yaml` looks up both kinds of key with a string.
const unescapePointer = (part: string): string => part.replaceAll('~1', '/').replaceAll('~0', '~')

function offsetOf(document: Document.Parsed, path: Path): number {
  for (let depth = path.length; depth >= 0; depth--) {
    const node = document.getIn(path.slice(0, depth), true)
    if (isNode(node) && node.range) return node.range[0]
  }
  return 0
}
