// The versions of Node that Sallyport runs on and is tested on. package.json has the floor, node-releases.json all others,
// since the program reads them too. A test compares the locks, the Dockerfile, the gate and the documents with both.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const readJson = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'))

/** The oldest that starts. Many machines still have it. */
export const floor = readJson('../package.json').engines.node.replace('>=', '')

const releases = readJson('../gateway/configuration/node-releases.json')

/**
 * Release lines by their major. `from` is the oldest release that can start: 22.0 and 22.1 have no `crc32` in node:zlib.
 * `endOfLife` is the date in schedule.json of github.com/nodejs/Release. `lastSecurityRelease` is the newest release whose
 * CHANGELOG.md says "This is a security release": `sallyport version` and the start warn below it, `npm run release` refuses
 * an image below it. `folder` has the lock by which npm installs `version`, and the same name in .sallyport.
 */
export const lines = releases.lines

/** The line of the image, on which the gate runs every test and the benches measure. */
export const imageLine = releases.imageLine

/** The folder into which npm puts the pinned Node of a line. */
export function locateNode(line) {
  const { version, folder: name } = lines[line]
  const list = fileURLToPath(new URL(name, import.meta.url))
  const folder = fileURLToPath(new URL(`../.sallyport/${name}`, import.meta.url))
  const packageName = `node-${process.platform}-${process.arch}`
  const bin = join(folder, 'node_modules', packageName, 'bin')
  const program = join(bin, 'node')
  /** Whether that very version is there, and runs. */
  const isInstalled = () => spawnSync(program, ['--version'], { encoding: 'utf8' }).stdout?.trim() === `v${version}`
  return { version, list, folder, packageName, bin, program, isInstalled }
}
