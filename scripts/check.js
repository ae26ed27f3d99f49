// `npm run check`, before each commit: lint, types and prose side by side, then the fast tests.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { install } from './install.js'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Whether the program found nothing. It prints at its end, lest two of them print in turns. */
async function runBeside(title, args) {
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
  const output = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => output.push(chunk))
  const [code] = await once(child, 'close')
  console.log(`\n${title}${code === 0 ? '' : ': failed'}\n${Buffer.concat(output).toString().trimEnd()}`)
  return code === 0
}

install()
const found = await Promise.all([
  runBeside('types', ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.test.json']),
  runBeside('lint', ['node_modules/@biomejs/biome/bin/biome', 'check', '--error-on-warnings', '.']),
  runBeside('prose', ['scripts/prose.js']),
])
if (found.includes(false)) process.exit(1)
console.log('\nfast tests')
const { status } = spawnSync(process.execPath, ['scripts/test.js', '--fast'], { cwd: root, stdio: 'inherit' })
process.exit(status ?? 1)
