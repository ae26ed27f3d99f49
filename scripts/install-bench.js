// Installs the programs that `npm run bench` compares with into .sallyport/bench, beyond Debian's packages. npm brings
// Node's forwarding engines, and Go the loader fortio and heimdall. The image's Node, which benches run on, goes into
// .sallyport/node-lts. The installers of the tests' proxies bring Envoy, Traefik and Caddy.
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const lists = fileURLToPath(new URL('bench', import.meta.url))
const folder = fileURLToPath(new URL('../.sallyport/bench', import.meta.url))
/** The newest without packages that the module proxy does not have. */
const fortio = 'fortio.org/fortio@v1.66.5'
/** The same holds for this one. */
const heimdall = { path: 'github.com/dadrus/heimdall', version: 'v0.17.0' }

mkdirSync(join(folder, 'bin'), { recursive: true })
const heimdallFolder = join(folder, 'heimdall')
mkdirSync(heimdallFolder, { recursive: true })
// By a module that asks for it, since `go install` wants a list of all versions, which not every module proxy has.
const requirement = `require ${heimdall.path} ${heimdall.version}`
writeFileSync(join(heimdallFolder, 'go.mod'), `module bench\n\ngo 1.25\n\n${requirement}\n`)
for (const file of ['package.json', 'package-lock.json']) copyFileSync(join(lists, file), join(folder, file))
const failed = [
  attempt(process.execPath, [fileURLToPath(new URL('install-node-lts.js', import.meta.url))], {}),
  attempt('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], {}),
  attempt('go', ['install', fortio], { GOBIN: join(folder, 'bin') }),
  buildHeimdall(),
].some((isDone) => !isDone)
if (failed) process.exitCode = 1

/** A program that is missing is left out of the figures, which say so. */
function attempt(command, args, environment, cwd = folder) {
  try {
    execFileSync(command, args, { cwd, stdio: 'inherit', env: { ...process.env, ...environment } })
    return true
  } catch (error) {
    console.error(`${command} ${args.join(' ')}: ${error.message}`)
    return false
  }
}

function buildHeimdall() {
  console.error('Building heimdall, which takes minutes the first time …')
  const output = join(folder, 'bin', 'heimdall')
  return attempt('go', ['build', '-mod=mod', '-buildvcs=false', '-o', output, heimdall.path], {}, heimdallFolder)
}
