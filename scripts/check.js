// `npm run check`, before each commit: lint, types, prose and the fast tests side by side, since tests wait for most of their time.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { install } from './install.js'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Ends the check where the program found something. It prints at its end, lest two of them print in turns. */
async function runBeside(title, args) {
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
  const end = () => child.kill('SIGTERM')
  process.once('exit', end)
  const output = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => output.push(chunk))
  const [code] = await once(child, 'close')
  process.off('exit', end)
  console.log(`\n${title}${code === 0 ? '' : ': failed'}\n${Buffer.concat(output).toString().trimEnd()}`)
  if (code !== 0) process.exit(1)
}

install()
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1))
await Promise.all([
  runBeside('fast tests', ['scripts/test.js', '--fast']),
  runBeside('types', ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.test.json']),
  runBeside('lint', ['node_modules/@biomejs/biome/bin/biome', 'check', '--error-on-warnings', '.']),
  runBeside('prose', ['scripts/prose.js']),
])
