// `npm test [-- FILE…]`: installs what is missing, builds, runs every test, and closes with the counts.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { build } from './build.js'
import { install } from './install.js'

install()
build()
const { Parser } = await import('tap-parser')

const root = fileURLToPath(new URL('..', import.meta.url))
const tap = fileURLToPath(import.meta.resolve('@tapjs/run'))
const options = ['run', '--reporter=tap', '--disable-coverage', '--allow-empty-coverage', ...process.argv.slice(2)]
const run = spawn(process.execPath, [tap, ...options], { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] })

const count = { passed: 0, failed: 0, skipped: 0 }
const failures = []

/** A test is an innermost named block; assertions are its parts. */
function watch(parser, path) {
  let hasTests = false
  let failedBefore = count.failed
  parser.on('child', (child) => {
    hasTests = true
    watch(child, [...path, child.name])
  })
  parser.on('assert', (result) => {
    // A block's own line repeats its end; a lone line is a skipped block, or an assertion outside of any.
    if (result.skip) note('skipped', [...path, result.name], result.skip)
    else if (!result.ok && !result.todo) failures.push({ path: [...path, result.name], diag: result.diag })
    if (path.length > 0) return
    // A file's line: it may have crashed or timed out outside of every test.
    if (!result.ok && count.failed === failedBefore) note('failed', [result.name])
    failedBefore = count.failed
    console.log(`${result.ok ? 'ok    ' : 'FAILED'} ${result.name} (${((result.time ?? 0) / 1000).toFixed(1)} s)`)
  })
  parser.on('complete', (results) => {
    if (path.length > 1 && !hasTests) note(results.ok ? 'passed' : 'failed', path)
  })
}

function note(kind, path, reason) {
  count[kind] += 1
  if (kind === 'skipped') console.log(`  skipped: ${path.join(' > ')}${reason === true ? '' : `: ${reason}`}`)
}

const parser = new Parser()
watch(parser, [])
run.stdout.pipe(parser)
const [code] = await Promise.all([
  new Promise((resolve) => run.on('exit', resolve)),
  new Promise((resolve) => parser.on('complete', resolve)),
])

for (const { path, diag } of failures) {
  console.log(`\nnot ok ${path.join(' > ')}`)
  for (const [key, value] of Object.entries(diag ?? {}))
    if (key !== 'source') console.log(`  ${key}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
}
if (code !== 0 && count.failed === 0) {
  console.log(`\nthe test runner ended with code ${code}`)
  count.failed = 1
}
console.log(`\n${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`)
process.exit(count.failed === 0 && count.passed > 0 ? 0 : 1)
