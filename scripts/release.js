// `npm run release` makes the files of a release; `npm run release -- --help` says more.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { build } from './build.js'
import { imageLine, lines } from './node-versions.js'
import { makeSbom } from './sbom.js'

const root = fileURLToPath(new URL('..', import.meta.url))

const help = `Usage: npm run release [-- [--dry-run] [--out FOLDER]]

Checks that this commit can be released, and makes the package, the SBOM, the chart, the notes and
their digests. It publishes nothing: .github/workflows/release.yaml does, when a tag is pushed.

Options:
  --dry-run     make all of it although a check fails
  --out FOLDER  where it goes, in the place of .sallyport/release
  -h, --help    this text

Example:
  $ npm run release -- --dry-run`

const read = (path) => readFileSync(join(root, path), 'utf8')
const { name, version } = JSON.parse(read('package.json'))
const tag = `v${version}`

/** Git's answer, or an empty text where Git fails. */
function askGit(...args) {
  try {
    return execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return ''
  }
}

/** The lines of a version below its heading in the changelog, and whether the heading has a date. */
export function readNotes(changelog, version) {
  const [, ...sections] = changelog.split(/^## /m)
  const find = (title) => sections.find((section) => section.startsWith(`[${title}]`))
  const own = find(version)
  const [heading = '', ...body] = (own ?? find('Unreleased') ?? '').split('\n')
  return { isDated: /^\[[^\]]+\] - \d{4}-\d{2}-\d{2}$/.test(heading), text: body.join('\n').trim() }
}

const isOlder = (version, than) => version.localeCompare(than, 'en', { numeric: true }) < 0

/** The conditions of the Node that the image runs: by its digest, since a tag may be led elsewhere, and with every fix. */
export function checkImage(dockerfile, { version: mended, date } = lines[imageLine].lastSecurityRelease) {
  const [image = '', tag = '', version = '0', digest] =
    /^ARG NODE_IMAGE=\S*?(node:([\d.]+)[\w.-]*)(@sha256:[0-9a-f]{64})?$/m.exec(dockerfile) ?? []
  const places = 'Dockerfile, compose.yaml and .github/workflows/ci.yaml'
  return [
    [
      image !== '' && digest !== undefined,
      'the image is named by its digest',
      `docker buildx imagetools inspect ${tag} tells it; write it into ${places}`,
    ],
    [!isOlder(version, mended), `the image has Node's fixes of ${date}`, `raise Node ${version} to ${mended} or newer`],
  ]
}

/** Every condition of a release, and whether this commit meets it. */
function checkCommit() {
  const versions = {
    'package-lock.json': JSON.parse(read('package-lock.json')).version,
    'helm/sallyport/Chart.yaml': /^version: (.+)$/m.exec(read('helm/sallyport/Chart.yaml'))?.[1],
    Dockerfile: /image\.version="([^"]+)"/.exec(read('Dockerfile'))?.[1],
  }
  const others = Object.entries(versions).filter(([, found]) => found !== version)
  const head = askGit('rev-parse', 'HEAD')
  const changed = askGit('status', '--porcelain').split('\n').filter(Boolean)
  return [
    [others.length === 0, `version ${version} is everywhere`, `differs in ${others.map(([file]) => file).join(', ')}`],
    [readNotes(read('CHANGELOG.md'), version).isDated, `CHANGELOG.md has ${version}`, `write "## [${version}] - DATE"`],
    [head !== '' && changed.length === 0, 'the working tree is a commit', `commit ${changed.length} changes`],
    [
      head !== '' && askGit('rev-parse', `${tag}^{commit}`) === head,
      `${tag} names this commit`,
      `git tag --sign ${tag}`,
    ],
    ...checkImage(read('Dockerfile')),
  ]
}

/** Packs a copy of the sources: the lock of the package must not stand beside the repository's own. */
function makePackage(out, isDry) {
  build({ force: !isDry })
  const copy = mkdtempSync(join(tmpdir(), 'sallyport-release-'))
  try {
    const sources = askGit('ls-files', '-z', '--cached', '--others', '--exclude-standard').split('\0')
    // A deleted file is listed until the deletion is committed; the list ends in an empty name.
    for (const file of [...sources.filter(Boolean), 'dist'].filter((file) => existsSync(join(root, file))))
      cpSync(join(root, file), join(copy, file), { recursive: true })
    nameRepository(join(copy, 'package.json'))
    execFileSync(process.execPath, ['scripts/shrinkwrap.js'], { cwd: copy })
    const args = ['pack', '--ignore-scripts', '--loglevel=error', '--pack-destination', out]
    execFileSync('npm', args, { cwd: copy, stdio: ['ignore', 'ignore', 'inherit'] })
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

/** npm compares a package's repository with the one that a workflow attests. */
function nameRepository(file) {
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: repository } = process.env
  if (!server || !repository) return
  const project = JSON.parse(readFileSync(file, 'utf8'))
  project.repository = { type: 'git', url: `git+${server}/${repository}.git` }
  writeFileSync(file, `${JSON.stringify(project, null, 2)}\n`)
}

/** Helm names the archive as npm names the package, so it gets another name. */
function makeChart(out) {
  const built = join(root, '.sallyport', 'deploy', 'bin', 'helm')
  const helm = existsSync(built) ? built : 'helm'
  const args = ['package', join(root, 'helm', 'sallyport'), '--destination', out]
  execFileSync(helm, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  renameSync(join(out, `${name}-${version}.tgz`), join(out, `${name}-chart-${version}.tgz`))
}

function composeNotes() {
  const supported = Object.entries(lines).map(
    ([line, { from, endOfLife }]) => `- Node ${line} from ${from}, until ${endOfLife}`,
  )
  return `${readNotes(read('CHANGELOG.md'), version).text}\n\n### Runs on\n\n${supported.join('\n')}\n`
}

/** Each file of the release; its digest stands in SHA256SUMS. */
const names = [`${name}-${version}.tgz`, `${name}-chart-${version}.tgz`, 'sbom.cdx.json', 'notes.md']

function makeFiles(out, isDry) {
  mkdirSync(out, { recursive: true })
  makeChart(out)
  makePackage(out, isDry)
  writeFileSync(join(out, 'sbom.cdx.json'), makeSbom())
  writeFileSync(join(out, 'notes.md'), composeNotes())
  const digest = (file) =>
    createHash('sha256')
      .update(readFileSync(join(out, file)))
      .digest('hex')
  writeFileSync(join(out, 'SHA256SUMS'), names.map((file) => `${digest(file)}  ${file}\n`).join(''))
}

function main() {
  const { values } = parseArgs({
    options: {
      'dry-run': { type: 'boolean', default: false },
      out: { type: 'string', default: join(root, '.sallyport', 'release') },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return console.log(help)
  const checks = checkCommit()
  for (const [isMet, condition, remedy] of checks)
    console.log(isMet ? `[x] ${condition}` : `[ ] ${condition}: ${remedy}`)
  if (checks.some(([isMet]) => !isMet) && !values['dry-run']) {
    process.exitCode = 1
    return console.error(`release: ${name} ${version} is not ready. --dry-run makes its files anyway`)
  }
  const out = resolve(values.out)
  makeFiles(out, values['dry-run'])
  console.log(['', ...[...names, 'SHA256SUMS'].map((file) => join(out, file)), ''].join('\n'))
  console.log(`[ ] .ci/run and .ci/drills pass\n[ ] git push origin ${tag}: the workflow publishes`)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main()
