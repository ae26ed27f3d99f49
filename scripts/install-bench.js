// Puts what `npm run bench` compares with, beyond Debian's packages, into .sallyport/bench: Node's forwarding engines from
// npm, and the loader fortio by Go. The installers of the tests' proxies bring Envoy, Traefik and Caddy.
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const lists = fileURLToPath(new URL('bench', import.meta.url))
const folder = fileURLToPath(new URL('../.sallyport/bench', import.meta.url))
/** The newest without packages that the module proxy does not have. */
const fortio = 'fortio.org/fortio@v1.66.5'

mkdirSync(join(folder, 'bin'), { recursive: true })
for (const file of ['package.json', 'package-lock.json']) copyFileSync(join(lists, file), join(folder, file))
const failed = [
  attempt('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], {}),
  attempt('go', ['install', fortio], { GOBIN: join(folder, 'bin') }),
].some((isDone) => !isDone)
if (failed) process.exitCode = 1

/** What is missing is left out of the table, which says so. */
function attempt(command, args, environment) {
  try {
    execFileSync(command, args, { cwd: folder, stdio: 'inherit', env: { ...process.env, ...environment } })
    return true
  } catch (error) {
    console.error(`${command} ${args.join(' ')}: ${error.message}`)
    return false
  }
}
