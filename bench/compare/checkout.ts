import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readNodeOptions } from '../../test/support/dockerfile.ts'
import type { Owner } from '../../test/support/owner.ts'
import type { Build } from '../../test/support/replicas.ts'

const repository = fileURLToPath(new URL('../../', import.meta.url))

/** A commit of this repository, built. */
export type Checkout = Readonly<{
  name: string
  build: Build
  /** The policies that it ships. */
  policies: string
  /** Whether its configuration has a key, such as `cluster.networks`. */
  knows: (key: string) => boolean
}>

/** Stands for the working tree as it is. */
export const workingTree = '.'

/** The short id of a commit such as `HEAD~3`; undefined if it does not exist. */
export function findCommit(name: string): string | undefined {
  if (name === workingTree) return workingTree
  const found = spawnSync('git', ['rev-parse', '--verify', '--quiet', '--short', `${name}^{commit}`], {
    cwd: repository,
    encoding: 'utf8',
  })
  return found.status === 0 ? found.stdout.trim() : undefined
}

/** Builds a commit in a folder that goes with its owner. Packages are those of this tree where the lock file is the same. */
export function checkOut(owner: Owner, commit: string): Checkout {
  if (commit === workingTree) return describe('working tree', repository)
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-bench-'))
  owner.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const archive = join(folder, 'commit.tar')
  execFileSync('git', ['archive', '--format=tar', `--output=${archive}`, commit], { cwd: repository })
  execFileSync('tar', ['-xf', archive, '-C', folder])
  if (readLock(folder) === readLock(repository))
    symlinkSync(join(repository, 'node_modules'), join(folder, 'node_modules'))
  // It installs what is missing: scripts/install.js knows by the lock file.
  execFileSync(process.execPath, [join(folder, 'scripts/build.js')], { stdio: ['ignore', 'ignore', 'inherit'] })
  return describe(commit, folder)
}

const readLock = (folder: string): string => readFileSync(join(folder, 'package-lock.json'), 'utf8')

type Schema = Readonly<{ properties?: Readonly<Record<string, Schema>> }>

/** Sources lay in gateway/ alone once, and the build had no folder for them. */
const findProgram = (folder: string): string =>
  [join(folder, 'dist/gateway/main.js'), join(folder, 'dist/main.js')].find((file) => existsSync(file)) ?? ''

function describe(name: string, folder: string): Checkout {
  const schema = JSON.parse(readFileSync(join(folder, 'config/gateway.schema.json'), 'utf8')) as Schema
  return {
    name,
    build: { program: findProgram(folder), nodeOptions: readNodeOptions(folder) },
    policies: join(folder, 'policies'),
    knows: (key) =>
      key.split('.').reduce<Schema | undefined>((found, part) => found?.properties?.[part], schema) !== undefined,
  }
}
