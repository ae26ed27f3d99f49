// `npm run prose`: checks Markdown, comments, messages and test names by the rules in .vale/; `npm run prose -- --help`.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { delimiter, dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { extractProse } from './extract-prose.js'

const root = fileURLToPath(new URL('..', import.meta.url))
/** Alerts that a folder may still have; a folder that is not named has none. */
const baselineFile = new URL('prose-baseline.json', import.meta.url)
const readable = /\.(md|ts|js)$/
const skipped = new Set(['node_modules', '.git', '.sallyport', '.tap', 'dist', 'coverage'])

const help = `Usage: npm run prose [-- [--count] [PATH…]]

Checks Markdown, and the comments, messages, descriptions and test names of sources.
Prints file:line of each alert where PATHs are named or a folder has more than it may.

Options:
  --count     alerts and comments by folder
  -h, --help  this text

Example:
  $ npm run prose -- gateway/relay docs/README.md`

/** The program, or undefined. */
export function findVale() {
  const folders = [
    join(root, '.sallyport', 'vale'),
    ...(process.env.PATH ?? '').split(delimiter),
    process.env.GOBIN ?? join(process.env.GOPATH ?? join(homedir(), 'go'), 'bin'),
  ]
  return folders.map((folder) => join(folder, 'vale')).find((file) => existsSync(file))
}

/** Every alert as `{ file, line, column, rule, severity, message }`, and how many comments each file has. */
export function checkProse(vale, paths) {
  const files = paths.flatMap(listFiles)
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-prose-'))
  try {
    const extracts = new Map(
      files.map((file) => [`${file}.md`, extractProse(file, readFileSync(join(root, file), 'utf8'))]),
    )
    for (const [name, { text }] of extracts) {
      mkdirSync(dirname(join(folder, name)), { recursive: true })
      writeFileSync(join(folder, name), text)
    }
    const found = runVale(vale, folder)
    const alerts = Object.entries(found).flatMap(([name, list]) =>
      list.map((alert) => describeAlert(name, extracts.get(name), alert)),
    )
    return { alerts, comments: files.map((file) => [file, extracts.get(`${file}.md`)?.comments ?? 0]) }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function runVale(vale, folder) {
  const args = ['--config', join(root, '.vale.ini'), '--no-exit', '--output', 'JSON', '.']
  const { stdout, stderr, status } = spawnSync(vale, args, { cwd: folder, encoding: 'utf8', maxBuffer: 1 << 28 })
  if (status !== 0) throw new Error(`Vale failed: ${stderr}${stdout}`)
  return JSON.parse(stdout)
}

const describeAlert = (name, extract, alert) => ({
  file: name.slice(0, -'.md'.length),
  line: extract?.lines[alert.Line - 1] ?? alert.Line,
  rule: alert.Check,
  severity: alert.Severity,
  message: alert.Message,
})

function listFiles(path) {
  const full = resolve(root, path)
  const name = relative(root, full)
  if (!statSync(full).isDirectory()) return readable.test(name) ? [name] : []
  return readdirSync(full, { withFileTypes: true })
    .filter((entry) => !skipped.has(entry.name) && !entry.name.startsWith('dist-'))
    .flatMap((entry) => (entry.isDirectory() || readable.test(entry.name) ? listFiles(join(name, entry.name)) : []))
    .sort()
}

/** `gateway/relay`, `docs/guides`, `scripts`: the first two folders of a path, or `.` for a file at the root. */
function folderOf(file) {
  const folders = dirname(file).split('/')
  return folders.slice(0, 2).join('/')
}

const countBy = (items, keyOf) => {
  const counts = new Map()
  for (const [key, add] of items.map(keyOf)) counts.set(key, (counts.get(key) ?? 0) + add)
  return counts
}

const printAlerts = (alerts) => {
  for (const { file, line, severity, rule, message } of alerts)
    console.log(`${file}:${line} ${severity} ${rule.replace('Plain.', '')}: ${message}`)
}

function printCounts({ alerts, comments }) {
  const errors = countBy(alerts, ({ file, severity }) => [folderOf(file), severity === 'error' ? 1 : 0])
  const all = countBy(alerts, ({ file }) => [folderOf(file), 1])
  const blocks = countBy(comments, ([file, count]) => [folderOf(file), count])
  const folders = [...new Set([...all.keys(), ...blocks.keys()])].sort()
  const rows = folders.map((name) => [name, errors.get(name) ?? 0, all.get(name) ?? 0, blocks.get(name) ?? 0])
  const sum = (index, among) => among.reduce((total, row) => total + row[index], 0)
  const gateway = rows.filter(([name]) => /^gateway(\/|$)/.test(name))
  const sums = [
    ['gateway, together', gateway],
    ['together', rows],
  ].map(([name, among]) => [name, sum(1, among), sum(2, among), sum(3, among)])
  console.log(`${'folder'.padEnd(26)}${['errors', 'alerts', 'comments'].map((word) => word.padStart(10)).join('')}`)
  for (const [name, ...figures] of [...rows, ...sums].filter((row) => row.slice(1).some((figure) => figure > 0)))
    console.log(`${name.padEnd(26)}${figures.map((figure) => String(figure).padStart(10)).join('')}`)
}

/** Compares with the baseline; prints what goes beyond it. */
function isWithinBaseline({ alerts }) {
  const allowed = existsSync(baselineFile) ? JSON.parse(readFileSync(baselineFile, 'utf8')) : {}
  const partOf = (file) => folderOf(file).replace(/^docs\/.*/, 'docs')
  const counts = countBy(alerts, ({ file }) => [partOf(file), 1])
  const beyond = [...counts].filter(([name, count]) => count > (allowed[name] ?? 0))
  for (const [name, count] of beyond) {
    printAlerts(alerts.filter(({ file }) => partOf(file) === name))
    console.log(`${name} has ${count} alerts and may have ${allowed[name] ?? 0}\n`)
  }
  console.log(`prose: ${alerts.length} alerts in ${counts.size} folders`)
  return beyond.length === 0
}

function main(words) {
  if (words.includes('--help') || words.includes('-h')) return console.log(help)
  const unknown = words.find((word) => word.startsWith('-') && word !== '--count')
  if (unknown !== undefined) {
    console.error(`prose: unknown option ${unknown}\n\n${help}`)
    process.exitCode = 2
    return
  }
  const vale = findVale()
  if (!vale) {
    console.log('prose: skipped, Vale is missing (node scripts/install-vale.js)')
    process.exitCode = process.env.REQUIRE_ALL ? 1 : 0
    return
  }
  const paths = words.filter((word) => word !== '--count')
  const result = checkProse(vale, paths.length > 0 ? paths : ['.'])
  if (words.includes('--count')) return printCounts(result)
  if (paths.length > 0) printAlerts(result.alerts)
  const isClean = paths.length > 0 ? result.alerts.length === 0 : isWithinBaseline(result)
  // By the exit code alone: an exit at once would lose lines that a pipe has not taken.
  process.exitCode = isClean ? 0 : 1
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv.slice(2))
