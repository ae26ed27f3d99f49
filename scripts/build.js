// Compiles gateway/, console/ and demo/ to dist/, unless nothing has changed since the last time.
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { install, runStep } from './install.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const stamp = join(root, 'dist', '.built')

/** The newest change below a folder, in milliseconds. */
const newest = (path) =>
  statSync(path).isDirectory()
    ? Math.max(statSync(path).mtimeMs, ...readdirSync(path).map((name) => newest(join(path, name))))
    : statSync(path).mtimeMs

const compileSchemas = join(root, 'scripts', 'compile-schemas.js')
const sources = ['gateway', 'console', 'demo']
const names = [...sources, 'config', 'policies', 'tsconfig.json', 'package-lock.json']
const inputs = [compileSchemas, ...names.map((name) => join(root, name))]

export function build({ force = false } = {}) {
  if (!force && existsSync(stamp) && inputs.every((path) => newest(path) < statSync(stamp).mtimeMs)) return
  // Beside, then swapped: a program that runs from dist/ meanwhile finds the old files or the new, never half of them.
  const fresh = join(root, `dist-${process.pid}`)
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  // `npm run types` checks them; a package is made of checked sources alone.
  const words = [tsc, '-p', root, '--outDir', fresh, ...(force ? [] : ['--noCheck'])]
  runStep('Compiling …', () => execFileSync(process.execPath, words, { stdio: 'inherit' }))
  const read = ['configuration/node-releases.json', 'directory/postgres/migrations']
  for (const path of read) cpSync(join(root, 'gateway', path), join(fresh, 'gateway', path), { recursive: true })
  execFileSync(process.execPath, [compileSchemas, fresh], { stdio: 'inherit' })
  chmodSync(join(fresh, 'gateway', 'main.js'), 0o755)
  writeFileSync(join(fresh, '.built'), '')
  const commit = force && findCommit()
  if (commit) writeFileSync(join(fresh, 'commit'), `${commit}\n`)
  const old = join(root, `dist-${process.pid}-old`)
  if (existsSync(join(root, 'dist'))) renameSync(join(root, 'dist'), old)
  renameSync(fresh, join(root, 'dist'))
  rmSync(old, { recursive: true, force: true })
}

/** The commit of these sources: named by an image's build, which has no git, or that of a clean working tree. */
function findCommit() {
  if (/^[0-9a-f]{40}$/.test(process.env.REVISION ?? '')) return process.env.REVISION
  const ask = (...words) => spawnSync('git', words, { cwd: root, encoding: 'utf8' })
  const changes = ask('status', '--porcelain', '--', ...sources, 'package-lock.json')
  return changes.status === 0 && changes.stdout === '' && ask('rev-parse', 'HEAD').stdout.trim()
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  install()
  build({ force: true })
}
