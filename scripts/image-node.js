// The Node of the image, where scripts/install-node-lts.js puts it: the tests' second run and the benches use it.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of its lock. */
export const list = fileURLToPath(new URL('node-lts', import.meta.url))
export const folder = fileURLToPath(new URL('../.sallyport/node-lts', import.meta.url))
export const name = `node-${process.platform}-${process.arch}`
export const bin = join(folder, 'node_modules', name, 'bin')
export const program = join(bin, 'node')
/** Undefined where this platform has none. */
export const version = JSON.parse(readFileSync(join(list, 'package.json'), 'utf8')).optionalDependencies[name]

/** Whether that very version is there, and runs. */
export const isInstalled = () =>
  version !== undefined && spawnSync(program, ['--version'], { encoding: 'utf8' }).stdout?.trim() === `v${version}`
