// Compiles gateway/ to dist/, unless nothing has changed since the last time.
import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { install } from './install.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const stamp = join(root, 'dist', '.built')

/** The newest change below a folder, in milliseconds. */
const newest = (path) =>
  statSync(path).isDirectory()
    ? Math.max(statSync(path).mtimeMs, ...readdirSync(path).map((name) => newest(join(path, name))))
    : statSync(path).mtimeMs

const inputs = ['gateway', 'tsconfig.json', 'package-lock.json'].map((name) => join(root, name))

export function build({ force = false } = {}) {
  if (!force && existsSync(stamp) && inputs.every((path) => newest(path) < statSync(stamp).mtimeMs)) return
  rmSync(join(root, 'dist'), { recursive: true, force: true })
  execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', root], { stdio: 'inherit' })
  const migrations = 'directory/postgres/migrations'
  cpSync(join(root, 'gateway', migrations), join(root, 'dist', migrations), { recursive: true })
  chmodSync(join(root, 'dist/main.js'), 0o755)
  writeFileSync(stamp, '')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  install()
  build({ force: true })
}
