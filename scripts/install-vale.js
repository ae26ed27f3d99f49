// Puts Vale, which checks the prose, into .sallyport/vale, unless that version is there.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findGo } from './find-go.js'

const folder = fileURLToPath(new URL('../.sallyport/vale', import.meta.url))
const program = 'github.com/errata-ai/vale/v3/cmd/vale@v3.7.1'
/** The version that Vale's own go.mod asks for. */
const wantedMinor = 21

try {
  const stamp = join(folder, '.program')
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== program) {
    console.log('Building Vale …')
    const env = { ...process.env, GOBIN: folder }
    execFileSync(findGo(wantedMinor), ['install', '-trimpath', program], { stdio: 'inherit', env, cwd: tmpdir() })
    writeFileSync(stamp, program)
  }
} catch (error) {
  console.error(`
Vale could not be built: ${error.message}
It takes Go 1.${wantedMinor} or newer (scripts/install-go.js brings one), a C compiler and the Go module proxy. Without Vale the prose is not checked.`)
  process.exit(1)
}
