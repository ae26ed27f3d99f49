// Installs a pinned Node with long-term support into .sallyport, unless it is there. Without an argument it is the
// image's, for all tests and the benches; else that of the named line.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { installByNpm } from './install/by-npm.js'
import { imageLine, lines, locateNode } from './node-versions.js'

const line = process.argv[2] ?? String(imageLine)

try {
  if (lines[line]?.version === undefined) throw new Error(`scripts/node-versions.js pins none of line ${line}`)
  const { version, list, folder, packageName, bin, program, isInstalled } = locateNode(line)
  const { optionalDependencies } = JSON.parse(readFileSync(join(list, 'package.json'), 'utf8'))
  if (!optionalDependencies[packageName]) throw new Error(`there is no ${packageName} in ${list}/package.json`)
  if (!isInstalled()) {
    console.error(`Installing Node ${version} in ${folder} …`)
    // Standard output is for the folder alone.
    installByNpm(list, folder, [], ['ignore', 2, 2])
  }
  if (!isInstalled()) throw new Error(`${program} does not run`)
  // To run the tests with it: PATH=$(node scripts/install-node-lts.js):$PATH
  console.log(bin)
} catch (error) {
  console.error(`
Node could not be installed: ${error.message}
It takes Linux on x64 or arm64, and npm's registry within reach.`)
  process.exit(1)
}
