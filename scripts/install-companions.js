// Puts what single tests run beside a gateway into .sallyport, each unless it is there: AdonisJS for
// `test/spec/adopted-adonis.gate.ts`, OpenTelemetry for `test/spec/tracing.test.ts`, oidc-provider for
// `test/integrate/oidc-provider.gate.ts`, VitePress for `npm run site`.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

for (const [name, title] of [
  ['adonis', 'AdonisJS'],
  ['otel', 'OpenTelemetry'],
  ['oidc-provider', 'oidc-provider'],
  ['site', 'VitePress'],
])
  try {
    install(name, title)
  } catch (error) {
    console.error(`
${title} could not be installed: ${error.message}
It takes npm's registry within reach. Without it its tests are skipped.`)
    process.exitCode = 1
  }

function install(name, title) {
  const list = fileURLToPath(new URL(name, import.meta.url))
  const folder = fileURLToPath(new URL(`../.sallyport/${name}`, import.meta.url))
  const stamp = join(folder, '.lock')
  const lock = createHash('sha256')
    .update(readFileSync(join(list, 'package-lock.json')))
    .digest('hex')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return
  console.log(`Installing ${title} in ${folder} …`)
  mkdirSync(folder, { recursive: true })
  for (const file of ['package.json', 'package-lock.json']) cpSync(join(list, file), join(folder, file))
  const npm = process.env.npm_execpath
  const [command, first] = npm ? [process.execPath, [npm]] : ['npm', []]
  // No package's scripts run: nothing here needs them.
  const args = [...first, 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  execFileSync(command, args, { cwd: folder, stdio: 'inherit' })
  // Last: a half-made folder has no stamp.
  writeFileSync(stamp, lock)
}
