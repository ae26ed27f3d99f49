// Puts OpenTelemetry into .sallyport/otel, for `test/spec/tracing.test.ts`, unless it is there.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const list = fileURLToPath(new URL('otel', import.meta.url))
const folder = fileURLToPath(new URL('../.sallyport/otel', import.meta.url))
const stamp = join(folder, '.lock')

const lock = createHash('sha256')
  .update(readFileSync(join(list, 'package-lock.json')))
  .digest('hex')
if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== lock) {
  console.log(`Installing OpenTelemetry in ${folder} …`)
  mkdirSync(folder, { recursive: true })
  for (const file of ['package.json', 'package-lock.json']) cpSync(join(list, file), join(folder, file))
  const npm = process.env.npm_execpath
  const [command, first] = npm ? [process.execPath, [npm]] : ['npm', []]
  // No package's scripts run: nothing here needs them.
  const args = [...first, 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  try {
    execFileSync(command, args, { cwd: folder, stdio: 'inherit' })
  } catch (error) {
    console.error(`
OpenTelemetry could not be installed: ${error.message}
It takes npm's registry within reach. Without it its tests are skipped.`)
    process.exit(1)
  }
  // Last: a half-made folder is none.
  writeFileSync(stamp, lock)
}
