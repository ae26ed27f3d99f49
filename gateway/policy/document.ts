import type { ValidateFunction } from 'ajv/dist/2020.js'
import {
  type Document,
  isCollection,
  isMap,
  isNode,
  isScalar,
  LineCounter,
  parseDocument,
  visit,
  type YAMLError,
} from 'yaml'
import { ConfigurationError, type Problem } from './configuration-error.ts'
import { describeViolations } from './violations.ts'

export type Path = readonly (string | number)[]

export type YamlFile = Readonly<{
  name: string
  document: Document.Parsed
  problemAt: (path: Path, message: string) => Required<Problem>
  problemAtOffset: (offset: number, message: string) => Required<Problem>
}>

export function parseYaml(name: string, text: string): YamlFile {
  const counter = new LineCounter()
  // Pretty errors would quote the line, and a line of configuration may hold a secret.
  const options = { version: '1.2', uniqueKeys: false, prettyErrors: false, lineCounter: counter } as const
  refuseDepth(name, text)
  const document = parseDocument(text, options)
  const placed = (offset: number, message: string): Required<Problem> => {
    const { line, col } = counter.linePos(offset)
    return { file: name, line, column: col, message }
  }
  // The package only warns about an unknown tag, and its value would become a string.
  const faults = [...document.errors, ...document.warnings]
  if (faults.length > 0)
    throw new ConfigurationError(firstOfLines(faults.map((fault) => placed(fault.pos[0], explainFault(fault)))))
  const file: YamlFile = {
    name,
    document,
    problemAt: (path, message) => placed(offsetOf(document, path), message),
    problemAtOffset: placed,
  }
  refuseAmbiguities(file)
  return file
}

/** The schemas nest about ten levels. The package calls itself for each level, and eight columns indent one at most. */
const mostDepth = 64
const mostIndent = 512

/**
 * Refuses a text that nests deeper than it may: by brackets, by `- - -` on one line, or by indentation. Looked at before
 * it is parsed: the package recurses, and a pattern that V8 compiles near the end of the stack ends the process (8 KiB
 * of `[`).
 */
function refuseDepth(file: string, text: string): void {
  let brackets = 0
  let indicators = 0
  let line = 1
  let column = 0
  let isLeading = true
  for (let index = 0; index < text.length; index++) {
    const character = text[index] ?? ''
    column += 1
    if (character === '\n' || character === '\r') {
      if (character === '\n' || text[index + 1] !== '\n') line += 1
      column = 0
      indicators = 0
      isLeading = true
    } else if (character === '[' || character === '{') brackets += 1
    else if (character === ']' || character === '}') brackets = Math.max(0, brackets - 1)
    else if (isLeading && isIndicator(character, text[index + 1])) indicators += 1
    else if (character !== ' ') isLeading = false
    if (brackets > mostDepth || indicators > mostDepth || (isLeading && column > mostIndent))
      throw new ConfigurationError([{ file, line, column, message: `is nested more than ${mostDepth} levels deep` }])
  }
}

const isIndicator = (character: string, next = ' '): boolean => '-?:'.includes(character) && ' \t\r\n'.includes(next)

/** Keeps one mistake of each line: the parser stumbles on after the first. */
const firstOfLines = (problems: readonly Required<Problem>[]): readonly Problem[] =>
  [...new Map(problems.toReversed().map((problem) => [problem.line, problem])).values()].reverse()

function explainFault({ code, message }: YAMLError): string {
  switch (code) {
    case 'TAB_AS_INDENT':
      return 'is indented by a tab; write spaces'
    case 'MULTIPLE_DOCS':
      return 'begins a second document; keep one, without the line "---"'
    case 'TAG_RESOLVE_FAILED':
      return `${message}; quote a text that begins with !`
    default:
      return parserWords.find(([said]) => said.test(message))?.[1] ?? message
  }
}

/** The package speaks of nodes and collections, to people who write YAML parsers. */
const parserWords: readonly (readonly [said: RegExp, words: string])[] = [
  [/^Flow .* end with a \}$/, 'a { before this is not closed; add }'],
  [/^Flow .* end with a \]$/, 'a [ before this is not closed; add ]'],
  [/^Missing closing "quote$/, 'a quote is not closed; add "'],
  [/^Missing closing 'quote$/, "a quote is not closed; add '"],
  [/^Implicit map keys need to be followed/, 'a key lacks its colon and value; add the colon, a space and the value'],
  [
    /^Nested mappings are not allowed/,
    'holds a second key; put the value in quotes, or begin the next line in the same column',
  ],
  [
    /^(?:All mapping items|All sequence items|Sequence item without|A block sequence may|Implicit keys need)/,
    'is indented otherwise than the lines beside it; begin them in one column',
  ],
  [/^Plain value cannot start with/, 'begins with a character that YAML keeps for itself; put the text in quotes'],
  [/^(?:Missing , (?:or : )?between|Block collections are not)/, 'a comma is missing before this; add it'],
  [/^Unexpected scalar/, 'stands behind a text that has ended; add a comma, or put both in one pair of quotes'],
  [/^Unexpected flow-/, 'closes what is not open; remove it'],
  [
    /^Invalid escape sequence/,
    'has an escape that YAML does not know; write \\\\ for a backslash, or take single quotes',
  ],
]

const describeKey = (name: unknown): string => (typeof name === 'string' ? `"${name}"` : 'a key')

/** Aliases, and keys that are there twice: the package compares each key with each other one, in quadratic time. */
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
          problems.push(
            file.problemAtOffset(key.range?.[0] ?? 0, `${describeKey(name)} stands twice in this section; keep one`),
          )
        known.add(name)
      }
    },
  })
  if (problems.length > 0) throw new ConfigurationError(problems)
}

export function validateYaml(file: YamlFile, validate: ValidateFunction): unknown {
  const value: unknown = file.document.toJS() ?? {}
  if (validate(value)) return value
  const isPlaceless = (path: Path): boolean => path.length === 0 || file.document.contents === null
  throw new ConfigurationError(
    describeViolations(validate.errors ?? []).map(({ path, isKey, message }) => {
      if (isPlaceless(path)) return { file: file.name, message }
      const offset = isKey ? offsetOfKey(file.document, path) : undefined
      return offset === undefined ? file.problemAt(path, message) : file.problemAtOffset(offset, message)
    }),
  )
}

function offsetOfKey({ contents }: Document.Parsed, path: readonly string[]): number | undefined {
  const above = path.length > 1 && isCollection(contents) ? contents.getIn(path.slice(0, -1), true) : contents
  if (!isMap(above)) return undefined
  const pair = above.items.find(({ key }) => isScalar(key) && String(key.value) === path.at(-1))
  return isScalar(pair?.key) ? pair.key.range?.[0] : undefined
}

/** The place of a value, or of the nearest one above; a section that the file lacks belongs at its end. */
function offsetOf(document: Document.Parsed, path: Path): number {
  for (let depth = path.length; depth >= Math.min(1, path.length); depth--) {
    const node = document.getIn(path.slice(0, depth), true)
    if (isNode(node) && node.range) return node.range[0]
  }
  return document.contents?.range?.[1] ?? 0
}
