// `npm pack` puts what this writes into the package: `npx sallyport` then installs the versions of the lock file, and no
// development dependency. npm prefers the file to package-lock.json, so that it must not stay: `--remove`.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

export const shrinkwrapFile = join(root, 'npm-shrinkwrap.json')

/** package.json and its lock without what only development needs. */
export function readProductionProject() {
  const lock = readJson('package-lock.json')
  for (const [path, { dev }] of Object.entries(lock.packages)) if (dev) delete lock.packages[path]
  delete lock.packages[''].devDependencies
  const { devDependencies: _, ...project } = readJson('package.json')
  return { project, lock }
}

const readJson = (path) => JSON.parse(readFileSync(join(root, path), 'utf8'))

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes('--remove')) rmSync(shrinkwrapFile, { force: true })
  else writeFileSync(shrinkwrapFile, `${JSON.stringify(readProductionProject().lock, null, 2)}\n`)
}
