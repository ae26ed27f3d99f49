// Checks Markdown, comments, messages, descriptions and test names by the rules in .vale/: `npm run prose -- --help`.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { delimiter, dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { extractProse } from './extract-prose.js'

const root = fileURLToPath(new URL('..', import.meta.url))
/** Comments allowed in gateway/: each should tell a reason that the code cannot tell, as each constant's has one. */
const mostComments = 2_500
const readable = /\.(md|[jt]s|ya?ml|sql|conf|cfg|tpl|schema\.json)$|(^|\/)(Dockerfile|Caddyfile)$|^\.ci\//
/** A migration that ran must not change: databases keep its checksum. These ran; a newer one is read before it does. */
const settled = /^gateway\/directory\/postgres\/migrations\/[a-z]+\/010[0-2]\./
const skipped = new Set(['node_modules', '.git', '.sallyport', '.tap', 'dist', 'coverage'])

const help = `Usage: npm run prose [-- [--count] [PATH…]]

Checks Markdown, and the comments, messages, descriptions and test names of sources,
schemas and files of configuration.
Prints file:line of each alert, and fails if there is one.

Options:
  --count     comments by folder
  -h, --help  this text

Example:
  $ npm run prose -- gateway/stages/relay docs/README.md`

/** The program, or undefined. */
export function findVale() {
  const folders = [
    join(root, '.sallyport', 'vale'),
    ...(process.env.PATH ?? '').split(delimiter),
    process.env.GOBIN ?? join(process.env.GOPATH ?? join(homedir(), 'go'), 'bin'),
  ]
  return folders.map((folder) => join(folder, 'vale')).find((file) => existsSync(file))
}

/** Every alert as `{ file, line, rule, severity, message }`, and how many comments each file has. */
export const checkProse = (vale, paths) =>
  checkTexts(
    vale,
    paths.flatMap(listFiles).map((file) => [file, readFileSync(join(root, file), 'utf8')]),
  )

/** The same of pairs of path and text. */
export function checkTexts(vale, files) {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-prose-'))
  try {
    const extracts = new Map(files.map(([file, text]) => [`${file}.md`, extractProse(file, text)]))
    for (const [name, { text }] of extracts) {
      mkdirSync(dirname(join(folder, name)), { recursive: true })
      writeFileSync(join(folder, name), text)
    }
    const found = runVale(vale, folder)
    const alerts = Object.entries(found).flatMap(([name, list]) =>
      list.map((alert) => describeAlert(name, extracts.get(name), alert)),
    )
    return { alerts, comments: files.map(([file]) => [file, extracts.get(`${file}.md`)?.comments ?? 0]) }
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

/** Whether the text of a file is checked. */
export const isChecked = (name) => readable.test(name) && !settled.test(name)

function listFiles(path) {
  const full = resolve(root, path)
  const name = relative(root, full)
  if (!statSync(full).isDirectory()) return isChecked(name) ? [name] : []
  return readdirSync(full, { withFileTypes: true })
    .filter((entry) => !skipped.has(entry.name) && !entry.name.startsWith('dist-'))
    .flatMap((entry) => listFiles(join(name, entry.name)))
    .sort()
}

/** `gateway/stages`, `docs/guides`, `scripts`: the first two folders of a path, or `.` for a file at the root. */
const folderOf = (file) => dirname(file).split('/').slice(0, 2).join('/')

function printComments(comments) {
  const counts = new Map()
  for (const [file, count] of comments) counts.set(folderOf(file), (counts.get(folderOf(file)) ?? 0) + count)
  for (const [folder, count] of [...counts].sort())
    if (count > 0) console.log(`${folder.padEnd(26)}${String(count).padStart(6)}`)
}

/** The lines of a report, and whether all is well. */
export function judgeProse({ alerts, comments }) {
  const inGateway = comments.filter(([file]) => file.startsWith('gateway/')).reduce((sum, [, count]) => sum + count, 0)
  const isCommented = inGateway <= mostComments
  const lines = alerts.map(
    ({ file, line, severity, rule, message }) =>
      `${file}:${line} ${severity} ${rule.replace('Plain.', '')}: ${message}`,
  )
  if (!isCommented) lines.push(`gateway has ${inGateway} comments and may have ${mostComments}`)
  return { lines: [...lines, `prose: ${alerts.length} alerts`], isGood: alerts.length === 0 && isCommented }
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
    console.log('prose: skipped, Vale is missing (node scripts/install-tools.js vale)')
    process.exitCode = process.env.REQUIRE_ALL ? 1 : 0
    return
  }
  const paths = words.filter((word) => word !== '--count')
  const result = checkProse(vale, paths.length > 0 ? paths : ['.'])
  if (words.includes('--count')) return printComments(result.comments)
  // By the exit code alone: an exit at once would lose lines that a pipe has not taken.
  const { lines, isGood } = judgeProse(result)
  console.log(lines.join('\n'))
  process.exitCode = isGood ? 0 : 1
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv.slice(2))
