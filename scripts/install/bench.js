// Installs the programs that `npm run bench` compares with into .sallyport/bench, beyond Debian's packages. npm brings
// Node's forwarding engines, and Go the loader fortio and heimdall. The image's Node, which benches run on, goes into
// .sallyport/node-lts. The installers of the tests' proxies bring Envoy, Traefik and Caddy.
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { installByNpm } from './by-npm.js'
import { locate, locateList } from './locate.js'

const folder = locate('bench')
/** The newest without packages that the module proxy does not have. */
const fortio = 'fortio.org/fortio@v1.66.5'
/** The same holds for this one. */
const heimdall = { path: 'github.com/dadrus/heimdall', version: 'v0.17.0' }

/** A program that is missing is left out of the figures, which say so. */
export const benchParts = ({ go }) => [
  {
    title: "The image's Node",
    takes: "npm's registry",
    make: () => run(process.execPath, [locateList('install-node-lts.js')]),
  },
  {
    title: "Node's forwarding engines",
    takes: "npm's registry",
    make: () => installByNpm(locateList('bench'), folder),
  },
  { title: 'fortio', takes: go, make: () => run('go', ['install', fortio], { GOBIN: join(folder, 'bin') }) },
  { title: 'heimdall', takes: go, make: buildHeimdall },
]

function run(command, args, environment = {}, cwd = folder) {
  mkdirSync(join(folder, 'bin'), { recursive: true })
  execFileSync(command, args, { cwd, stdio: 'inherit', env: { ...process.env, ...environment } })
}

function buildHeimdall() {
  console.error('Building heimdall, which takes minutes the first time …')
  const place = join(folder, 'heimdall')
  mkdirSync(place, { recursive: true })
  // By a module that asks for it, since `go install` wants a list of all versions, which not every module proxy has.
  const requirement = `require ${heimdall.path} ${heimdall.version}`
  writeFileSync(join(place, 'go.mod'), `module bench\n\ngo 1.25\n\n${requirement}\n`)
  const output = join(folder, 'bin', 'heimdall')
  run('go', ['build', '-mod=mod', '-buildvcs=false', '-o', output, heimdall.path], {}, place)
}
