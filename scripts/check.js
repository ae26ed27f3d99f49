// `npm run check`, before each commit: lint, types, prose, architecture and unit tests.
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { install } from './install.js'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Folders whose tests start servers, or other programs. */
const slow = new Set([
  'spec',
  'deploy',
  'demo',
  'advisories',
  'fuzz',
  'pipeline',
  'integrate',
  'bench',
  'support',
  'scripts',
])

const unitTests = readdirSync(new URL('../test', import.meta.url), { recursive: true })
  .filter((file) => file.endsWith('.test.ts') && !slow.has(file.split('/')[0]))
  .map((file) => `test/${file}`)
  .sort()

const run = (title, args) => {
  console.log(`\n${title}`)
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' })
  if (status !== 0) process.exit(1)
}

install()
run('lint', ['node_modules/@biomejs/biome/bin/biome', 'check', '--error-on-warnings', '.'])
run('types', ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.test.json'])
run('prose', ['scripts/prose.js'])
run('architecture and unit tests', ['scripts/test.js', ...unitTests])
