import { readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const repository = fileURLToPath(new URL('..', import.meta.url))

/** Folders of sources, the main one first. */
const sourceFolders = ['gateway', 'console', 'demo']

/** Folders of gateway/ that hold folders. */
const groups = {
  base: ['errors', 'fault', 'lib', 'network'],
  stages: [
    ...['receive', 'route', 'authenticate', 'resolve', 'authorize', 'consult', 'limit', 'endpoints', 'locate', 'pin'],
    ...['recheck', 'forward', 'relay'],
  ],
  listeners: ['decision', 'signals', 'admin'],
  run: ['boot', 'reload', 'workers'],
  tools: ['cli', 'provision'],
}

/** A file of its own is worth its name from this many lines on, or from two importers on. */
const smallLines = 40
const longestFunction = 60
/** A file of more lines has a constant, an order or a branch whose reason its code cannot say. */
const silentLines = 100

/** Folders, by their own names, from the ground up; folders on one floor may import one another. An arrow to a later floor runs upward. */
export const floors = [
  ['errors', 'fault', 'lib', 'network'],
  ['rights'],
  ['policy'],
  ['http', 'directory'],
  ['receive'],
  ['route', 'authenticate'],
  ['resolve'],
  ['authorize'],
  ['consult', 'limit', 'locate', 'endpoints'],
  ['pin', 'recheck', 'relay', 'observe', 'signals'],
  ['forward', 'admin', 'console'],
  ['pipeline.ts', 'decision'],
  ['configuration'],
  ['analyze'],
  ['reload'],
  ['boot'],
  ['workers'],
  ['cli', 'provision'],
  ['demo'],
  ['main.ts'],
]

/** Folders that feel a change of rights. Their times stand in `rights/budget.ts`, or in `rights/paces.ts` if they belong to none. */
const roomsOfTheSecond = [
  'stages/recheck',
  'stages/consult',
  'directory/cache',
  'directory/logouts',
  'stages/authenticate/introspection',
  'listeners/signals',
  'listeners/decision/authzen',
]

const timeConstant = /^\s*(?:export )?const (\w*(?:Ms|Seconds|Minutes)) = [\d._]/gm
/** A later comparison of such a count asks whether anything was heard since. */
const heardCount = /(?:position|generation|starts|epoch|changes) \+= 1$/m
const boundedLine = /new Turns(?:<.*?>)?\(\{[^)]*mostWaiting/

/** The folder of a source by its own name: `receive` of `gateway/stages/receive/target.ts`. */
export function roomOf(file) {
  const [first, second = ''] = file.replace(/^gateway\//, '').split('/')
  return first in groups ? second : first
}

/** The path of a folder, below gateway/ where it lies there: `stages/receive`. */
export function pathOf(room) {
  const [group] = Object.entries(groups).find(([, names]) => names.includes(room)) ?? []
  return group === undefined ? room : `${group}/${room}`
}

const floorOf = (file) => floors.findIndex((rooms) => rooms.includes(roomOf(file)))

/** Every source, as a path from the repository. */
export const listSources = () =>
  sourceFolders
    .flatMap((folder) =>
      readdirSync(join(repository, folder), { recursive: true, encoding: 'utf8' }).map((file) => `${folder}/${file}`),
    )
    .map((file) => file.split('\\').join('/'))
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts'))
    .sort()

/** Every figure, with the names behind it; files are paths from the repository. */
export function measureHouse() {
  const files = listSources()
  const sources = new Map(files.map((file) => [file, parse(file)]))
  const imports = new Map(files.map((file) => [file, listImports(file, sources.get(file))]))
  const importers = countImporters(imports)
  const sizes = files.map((file) => countLines(sources.get(file)))
  return {
    files: files.length,
    lines: sizes.reduce((sum, size) => sum + size, 0),
    median: sizes.toSorted((one, other) => one - other)[Math.floor(sizes.length / 2)] ?? 0,
    smallFiles: files.filter((file, index) => (sizes[index] ?? 0) < smallLines && importers.get(file) === 1),
    cycles: findCycles(imports),
    upwardArrows: [...imports].flatMap(([file, targets]) =>
      targets.filter((target) => floorOf(target) > floorOf(file)).map((target) => `${file} -> ${target}`),
    ),
    unplacedFiles: files.filter((file) => floorOf(file) < 0),
    largestFolder: findLargest(files),
    duplicateNames: findDuplicates(sources),
    commentShare: shareOfComments(sources),
    uncommentedFiles: files.filter(
      (file, index) => (sizes[index] ?? 0) > silentLines && commentLines(sources.get(file)).size === 0,
    ),
    longFunctions: files.flatMap((file) => listLongFunctions(file, sources.get(file))),
    supportFiles: countSupportFiles(),
    ...measureSecond(sources),
    ...measureDocuments(),
    sqlLines: countSqlLines(),
    entries: readdirSync(join(repository, 'gateway')).sort(),
  }
}

/** Helpers that several tests import, and their own tests. */
function countSupportFiles() {
  const names = readdirSync(join(repository, 'test/support'), { recursive: true, encoding: 'utf8' })
  return names.filter((name) => name.endsWith('.ts')).length
}

/** Figures of `rights/`, which is one place for them: times of the second, counts of what was heard, and lines of bounded length. */
function measureSecond(sources) {
  const all = [...sources].map(([file, { text }]) => ({ file: file.replace(/^gateway\//, ''), text }))
  const inRooms = (rooms) => all.filter(({ file }) => rooms.some((room) => file.startsWith(`${room}/`)))
  const named = (rooms, pattern) =>
    inRooms(rooms)
      .filter(({ text }) => pattern.test(text))
      .map(({ file }) => file)
  return {
    timeConstants: inRooms(roomsOfTheSecond).flatMap(({ file, text }) =>
      [...text.matchAll(timeConstant)].map(([, name]) => `${file}: ${name}`),
    ),
    heardAnswers: named([...roomsOfTheSecond, 'directory', 'listeners/decision', 'rights'], heardCount),
    waitingRooms: named([...roomsOfTheSecond, 'directory', 'listeners/decision', 'rights'], boundedLine),
  }
}

/** Pages below docs/, decisions and indexes among them, and words of SECURITY.md. */
function measureDocuments() {
  const pages = readdirSync(join(repository, 'docs'), { recursive: true, encoding: 'utf8' })
  const security = readFileSync(join(repository, 'SECURITY.md'), 'utf8')
  return {
    documentPages: pages.filter((file) => file.endsWith('.md')).length,
    securityWords: security.match(/\S*\w\S*/g)?.length ?? 0,
  }
}

function countSqlLines() {
  const folder = join(repository, 'gateway')
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.sql'))
  return names.reduce((sum, name) => sum + readFileSync(join(folder, name), 'utf8').split('\n').length - 1, 0)
}

const parse = (file) =>
  ts.createSourceFile(
    file,
    readFileSync(join(repository, file), 'utf8'),
    ts.ScriptTarget.Latest,
    true,
    ts.ScriptKind.TS,
  )

const countLines = (source) => source.text.split('\n').length - 1

/** The lines on which a comment stands, by itself or behind code. The text of a template does not count. */
function commentLines(source) {
  const lines = new Set()
  const note = ({ pos, end }) => {
    const first = source.getLineAndCharacterOfPosition(pos).line
    const last = source.getLineAndCharacterOfPosition(end).line
    for (let line = first; line <= last; line += 1) lines.add(line)
  }
  const visit = (node) => {
    const children = node.getChildren(source)
    // Comments belong to the tokens around them, which are the leaves of the tree.
    if (children.length === 0 && !ts.isJsxText(node)) {
      for (const comment of ts.getLeadingCommentRanges(source.text, node.getFullStart()) ?? []) note(comment)
      for (const comment of ts.getTrailingCommentRanges(source.text, node.end) ?? []) note(comment)
    }
    for (const child of children) visit(child)
  }
  visit(source)
  return lines
}

function shareOfComments(sources) {
  const all = [...sources.values()]
  const lines = all.reduce((sum, source) => sum + countLines(source), 0)
  return all.reduce((sum, source) => sum + commentLines(source).size, 0) / lines
}

/** The sources that a source imports, types and later imports among them. */
function listImports(file, source) {
  const found = new Set()
  const note = (node) => {
    if (!node || !ts.isStringLiteral(node) || !node.text.startsWith('.')) return
    const target = posix.join(posix.dirname(file), node.text)
    if (sourceFolders.includes(target.split('/')[0])) found.add(target)
  }
  const visit = (node) => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) note(node.moduleSpecifier)
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) note(node.arguments[0])
    ts.forEachChild(node, visit)
  }
  visit(source)
  return [...found]
}

function countImporters(imports) {
  const counts = new Map()
  for (const targets of imports.values())
    for (const target of targets) counts.set(target, (counts.get(target) ?? 0) + 1)
  return counts
}

/** Strongly connected components of more than one file (Tarjan, 1972). */
function findCycles(imports) {
  const indexes = new Map()
  const lowest = new Map()
  const stack = []
  const cycles = []
  const visit = (file) => {
    indexes.set(file, indexes.size)
    lowest.set(file, indexes.get(file))
    stack.push(file)
    for (const target of imports.get(file) ?? []) {
      if (!indexes.has(target)) visit(target)
      if (stack.includes(target)) lowest.set(file, Math.min(lowest.get(file), lowest.get(target)))
    }
    if (lowest.get(file) !== indexes.get(file)) return
    const component = stack.splice(stack.indexOf(file))
    if (component.length > 1) cycles.push(component.sort())
  }
  for (const file of imports.keys()) if (!indexes.has(file)) visit(file)
  return cycles
}

function findLargest(files) {
  const counts = new Map()
  for (const file of files) {
    const room = roomOf(file)
    counts.set(room, (counts.get(room) ?? 0) + 1)
  }
  const [name = '', count = 0] = [...counts].sort(([, one], [, other]) => other - one)[0] ?? []
  return { name, share: count / files.length }
}

/** Names of types, interfaces and classes that two files export. */
function findDuplicates(sources) {
  const places = new Map()
  for (const [file, source] of sources)
    for (const statement of source.statements) {
      const isType =
        ts.isTypeAliasDeclaration(statement) || ts.isInterfaceDeclaration(statement) || ts.isClassDeclaration(statement)
      const isExported = statement.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)
      if (!isType || !isExported || !statement.name) continue
      places.set(statement.name.text, [...(places.get(statement.name.text) ?? []), file])
    }
  return [...places].filter(([, files]) => files.length > 1).map(([name, files]) => ({ name, files }))
}

function listLongFunctions(file, source) {
  const found = []
  const visit = (node) => {
    if (ts.isFunctionLike(node) && 'body' in node && node.body) {
      const start = source.getLineAndCharacterOfPosition(node.getStart()).line
      const lines = source.getLineAndCharacterOfPosition(node.end).line - start + 1
      const name = node.name?.getText() ?? node.parent.name?.getText() ?? '(anonymous)'
      if (lines > longestFunction) found.push({ name, file, line: start + 1, lines })
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}
