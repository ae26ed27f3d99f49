// Puts the newest Node with long-term support into .sallyport/node-lts, for the tests' second run, unless it is there.
import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const list = fileURLToPath(new URL('node-lts', import.meta.url))
const folder = fileURLToPath(new URL('../.sallyport/node-lts', import.meta.url))
const name = `node-${process.platform}-${process.arch}`
const program = join(folder, 'node_modules', name, 'bin', 'node')
const wanted = JSON.parse(readFileSync(join(list, 'package.json'), 'utf8')).optionalDependencies[name]

try {
  if (wanted === undefined) throw new Error(`there is no ${name} in scripts/node-lts/package.json`)
  if (versionOf(program) !== `v${wanted}`) {
    console.error(`Installing Node ${wanted} in ${folder} …`)
    mkdirSync(folder, { recursive: true })
    for (const file of ['package.json', 'package-lock.json']) copyFileSync(join(list, file), join(folder, file))
    const npm = process.env.npm_execpath
    const [command, first] = npm ? [process.execPath, [npm]] : ['npm', []]
    // The very files of the lock, and no package's scripts.
    const args = [...first, 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
    execFileSync(command, args, { cwd: folder, stdio: ['ignore', 2, 2] })
  }
  if (versionOf(program) !== `v${wanted}`) throw new Error(`${program} does not run`)
} catch (error) {
  console.error(`
Node could not be installed: ${error.message}
It takes Linux on x64 or arm64, and npm's registry within reach.`)
  process.exit(1)
}
// For whoever runs the tests with it: PATH=$(node scripts/install-node-lts.js):$PATH
console.log(join(folder, 'node_modules', name, 'bin'))

function versionOf(node) {
  return spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout?.trim()
}
