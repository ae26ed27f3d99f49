// Puts the newest Node with long-term support, the image's, into .sallyport/node-lts, for the tests' second run and the
// benches, unless it is there.
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { bin, folder, isInstalled, list, name, program, version } from './image-node.js'

try {
  if (version === undefined) throw new Error(`there is no ${name} in scripts/node-lts/package.json`)
  if (!isInstalled()) {
    console.error(`Installing Node ${version} in ${folder} …`)
    mkdirSync(folder, { recursive: true })
    for (const file of ['package.json', 'package-lock.json']) copyFileSync(join(list, file), join(folder, file))
    const npm = process.env.npm_execpath
    const [command, first] = npm ? [process.execPath, [npm]] : ['npm', []]
    // The very files of the lock, and no package's scripts.
    const args = [...first, 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
    execFileSync(command, args, { cwd: folder, stdio: ['ignore', 2, 2] })
  }
  if (!isInstalled()) throw new Error(`${program} does not run`)
} catch (error) {
  console.error(`
Node could not be installed: ${error.message}
It takes Linux on x64 or arm64, and npm's registry within reach.`)
  process.exit(1)
}
// For whoever runs the tests with it: PATH=$(node scripts/install-node-lts.js):$PATH
console.log(bin)
