// Builds OpenFGA and Cerbos into .sallyport/decision-points, unless they are there. The first time takes ten minutes on two
// processors.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findGo } from './find-go.js'

const folder = fileURLToPath(new URL('../.sallyport/decision-points', import.meta.url))
const programs = [
  { command: 'github.com/openfga/openfga/cmd/openfga', version: 'v1.22.1' },
  { command: 'github.com/cerbos/cerbos/cmd/cerbos', version: 'v0.50.0' },
]
const wantedMinor = 26

try {
  const stamp = join(folder, '.built')
  const wanted = programs.map(({ command, version }) => `${command}@${version}`).join(' ')
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== wanted) {
    console.log('Building OpenFGA and Cerbos, which takes ten minutes the first time …')
    const go = findGo(wantedMinor)
    mkdirSync(folder, { recursive: true })
    for (const program of programs) build(go, program)
    writeFileSync(stamp, wanted)
  }
} catch (error) {
  console.error(`
OpenFGA and Cerbos could not be built: ${error.message}
It takes Go 1.${wantedMinor} or newer, and the Go module proxy within reach. Without them their tests are skipped.`)
  process.exitCode = 1
}

/** In a module of its own, because `go install` takes no program whose module excludes versions, as that of Cerbos does. */
function build(go, { command, version }) {
  const place = mkdtempSync(join(tmpdir(), 'sallyport-decision-points-'))
  const run = (...args) => execFileSync(go, args, { cwd: place, stdio: 'inherit' })
  try {
    run('mod', 'init', 'decisionpoint')
    run('get', `${command}@${version}`)
    run('build', '-mod=mod', '-trimpath', '-buildvcs=false', '-o', `${folder}/`, command)
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
}
