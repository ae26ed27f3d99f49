// `npm run check`, before each commit: lint, types, prose and the fast tests.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { install } from './install.js'

const root = fileURLToPath(new URL('..', import.meta.url))

const run = (title, args) => {
  console.log(`\n${title}`)
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' })
  if (status !== 0) process.exit(1)
}

install()
run('lint', ['node_modules/@biomejs/biome/bin/biome', 'check', '--error-on-warnings', '.'])
run('types', ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.test.json'])
run('prose', ['scripts/prose.js'])
run('fast tests', ['scripts/test.js', '--fast'])
