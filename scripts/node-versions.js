// The versions of Node that Sallyport runs on and is tested on. package.json has the floor, this file all others; a test
// compares the locks, the Dockerfile, the gate and the documents with both.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const readJson = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'))

/** The oldest that starts. Many machines still have it. */
export const floor = readJson('../package.json').engines.node.replace('>=', '')

/**
 * Release lines by their major. `from` is the oldest release that can start: 22.0 and 22.1 have no `crc32` in node:zlib.
 * `endOfLife` is the date in schedule.json of github.com/nodejs/Release. `folder` has the lock by which npm installs
 * `version`, and the same name in .sallyport.
 */
export const lines = {
  20: { from: floor, endOfLife: '2026-04-30' },
  22: { from: '22.2', endOfLife: '2027-04-30', version: '22.23.3', folder: 'node-22' },
  24: { from: '24.0', endOfLife: '2028-04-30', version: '24.21.0', folder: 'node-lts' },
}

/** The line of the image, on which the gate runs every test and the benches measure. */
export const imageLine = 24

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
