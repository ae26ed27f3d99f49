import ts from 'typescript'

/**
 * The prose of a file as Markdown. `lines` has the line of the source for each line of the text; `comments` counts
 * blocks, of which consecutive `//` lines are one.
 */
export function extractProse(file, source) {
  if (file.endsWith('.md')) return { text: source, lines: source.split('\n').map((_, index) => index + 1), comments: 0 }
  if (!/\.[jt]s$/.test(file)) return { ...extractByLine(file, source), comments: 0 }
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true, ts.ScriptKind.TS)
  const blocks = joinLineComments(listComments(tree), tree).map((comment) => readComment(comment, tree))
  const strings = listStrings(tree, isTestFile(file))
  const text = []
  const lines = []
  for (const block of [...blocks, ...strings])
    for (const [line, words] of [...block, [block[0][0], '']]) {
      text.push(words)
      lines.push(line)
    }
  return { text: text.join('\n'), lines, comments: blocks.length }
}

/** Descriptions of a schema; comments of YAML, SQL and other files of configuration, and of shell scripts. */
function extractByLine(file, source) {
  const read = file.endsWith('.json') ? readDescription : file.endsWith('.sql') ? readSqlComment : readHashComment
  const text = []
  const lines = []
  const put = (words, line) => {
    text.push(words)
    lines.push(line)
  }
  for (const [index, line] of source.split('\n').entries()) {
    const { words = '', isAlone = true } = read(line) ?? {}
    if (!isAlone) put('', index + 1)
    put(toMarkdown(words), index + 1)
    if (!isAlone) put('', index + 1)
  }
  return { text: text.join('\n'), lines }
}

const readDescription = (line) => {
  const [, text] = /^\s*"description": (".*?"),?$/.exec(line) ?? []
  return text && { words: JSON.parse(text), isAlone: false }
}

const readSqlComment = (line) => {
  const [, words] = /^\s*-- ?(.*)$/.exec(line) ?? []
  return { words }
}

/** Comments, and names of expectations. Examples in brackets are code; directives of tools are left out. */
const readHashComment = (line) => {
  const [, name] = /^ *- name: ([a-z].* .*)$/.exec(line) ?? []
  if (name) return { words: capitalise(name), isAlone: false }
  const [, before, words] = /^(.*?)(?<!\S)#+(?: (.*))?$/.exec(line) ?? []
  if (words === undefined || /^(yaml-language-server|shellcheck|syntax=|hadolint|renovate)/.test(words))
    return undefined
  return { words: words.replaceAll(/\[?\{.*\}\]?/g, '`x`'), isAlone: before.trim() === '' }
}

const isTestFile = (file) => /^(?:test|bench|drills)\//.test(file)

/** Ranges of all comments, in order. */
function listComments(tree) {
  const found = new Map()
  const note = (ranges) => {
    for (const range of ranges ?? []) found.set(range.pos, range)
  }
  const visit = (node) => {
    const children = node.getChildren(tree)
    if (children.length === 0) {
      note(ts.getLeadingCommentRanges(tree.text, node.pos))
      note(ts.getTrailingCommentRanges(tree.text, node.end))
    }
    // JSDoc stands among the children of what it describes, and is a leading comment of that one's first token.
    children.filter((child) => !ts.isJSDoc(child)).forEach(visit)
  }
  visit(tree)
  return [...found.values()].sort((one, other) => one.pos - other.pos)
}

const lineOf = (tree, position) => tree.getLineAndCharacterOfPosition(position).line

/** A run of `//` comments on lines of their own is one block. */
function joinLineComments(ranges, tree) {
  const blocks = []
  for (const range of ranges) {
    const last = blocks.at(-1)
    const before = last?.at(-1)
    const isLine = range.kind === ts.SyntaxKind.SingleLineCommentTrivia
    const goesOn =
      before?.kind === range.kind &&
      lineOf(tree, range.pos) === lineOf(tree, before.pos) + 1 &&
      startsItsLine(tree, before) &&
      startsItsLine(tree, range)
    if (isLine && goesOn) last.push(range)
    else blocks.push([range])
  }
  return blocks
}

const startsItsLine = (tree, { pos }) =>
  tree.text.slice(tree.getPositionOfLineAndCharacter(lineOf(tree, pos), 0), pos).trim() === ''

/** Lines of `[number, text]` without the marks of the comment. */
function readComment(ranges, tree) {
  return ranges.flatMap(({ pos, end }) => {
    const first = lineOf(tree, pos) + 1
    return tree.text
      .slice(pos, end)
      .replace(/\*\/$/, '')
      .split('\n')
      .map((line, index) => [first + index, toMarkdown(line.replace(/^\s*(\/\/+|\/\*+|\*)? ?/, ''))])
  })
}

/** Tags of JSDoc begin a paragraph's text. Directives of tools are left out. */
const toMarkdown = (line) =>
  /^(biome-ignore|@ts-|c8 |v8 |node:coverage|!\/|@type|@typedef)/.test(line)
    ? ''
    : line
        .replace(/^@(throws|param|returns)( \{[^}]*\})?( `?\w+`?)?( -)? ?/, '')
        .replace(/\s+$/, '')
        .replace(/[<>]/g, '\\$&')

/** Texts of three words and more: messages, descriptions and help. In tests only the names of tests count. */
function listStrings(tree, isTest) {
  const found = []
  const visit = (node) => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return
    const words = isTest && !isTestName(node) ? undefined : readText(node)
    if (words !== undefined && isProse(words)) {
      const first = lineOf(tree, node.getStart(tree)) + 1
      found.push(
        capitalise(words)
          .split('\n')
          .map((line, index) => [first + index, line.trim().replace(/[<>]/g, '\\$&')]),
      )
    }
    ts.forEachChild(node, visit)
  }
  visit(tree)
  return found
}

const isTestName = ({ parent, kind }) =>
  (kind === ts.SyntaxKind.StringLiteral ||
    kind === ts.SyntaxKind.NoSubstitutionTemplateLiteral ||
    kind === ts.SyntaxKind.TemplateExpression) &&
  ts.isCallExpression(parent) &&
  /(^|\.)test\w*$/i.test(parent.expression.getText())

/** A template's expressions read as `x`. */
function readText(node) {
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text
  if (!ts.isTemplateExpression(node)) return undefined
  return node.head.text + node.templateSpans.map(({ literal }) => `\`x\`${literal.text}`).join('')
}

/** Neither SQL, HTML, CSS, script nor headers, nor a list of names. */
const isProse = (text) =>
  /[a-z]+[,:;]? [a-z`(]+[^ ]* [a-z`(]+/.test(text) &&
  !/^[\s(]*(select|insert|update|delete from|create|alter|drop|with|begin|set|listen|grant|not exists|json_build_object)\b/i.test(
    text,
  ) &&
  !/\$\d/.test(text) &&
  !/<\/?[a-z]+[^>]*>/.test(text) &&
  !/[;{}]$/m.test(text) &&
  !/\r\n|^data:|-src /.test(text)

const capitalise = (text) => text.charAt(0).toUpperCase() + text.slice(1)
