// `npm test [-- FILE…]`: installs what is missing, builds, runs every test, and closes with the counts.
import { readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { build } from './build.js'
import { install } from './install.js'

install()
build()
const { runFile } = await import('./run-file.js')

/** Files start servers and wait for real time-outs; on a busy machine that takes a while. A campaign has a day. */
const timeoutMs = process.env.CAMPAIGN ? 86_400_000 : 150_000

/** Much of a file's time is spent in waiting, so that more of them than processors are done sooner. */
const jobs = Number(process.env.TEST_JOBS) || availableParallelism() + 2

const count = { passed: 0, failed: 0, skipped: 0 }
const failures = []

/** A test is an innermost named block; assertions are its parts. Calls back for each that fails. */
function watch(parser, path, onFailed) {
  let hasTests = false
  parser.on('child', (child) => {
    hasTests = true
    watch(child, [...path, child.name], onFailed)
  })
  parser.on('assert', (result) => {
    // A block's own line repeats its end; a lone line is a skipped block, or an assertion outside of any.
    if (result.skip) note('skipped', [...path, result.name], result.skip)
    else if (!result.ok && !result.todo) failures.push({ path: [...path, result.name], diag: result.diag })
  })
  parser.on('complete', (results) => {
    if (path.length === 1 || hasTests) return
    note(results.ok ? 'passed' : 'failed', path)
    if (!results.ok) onFailed()
  })
}

function note(kind, path, reason) {
  count[kind] += 1
  if (kind === 'skipped') console.log(`  skipped: ${path.join(' > ')}${reason === true ? '' : `: ${reason}`}`)
}

async function run(file) {
  let isNoted = false
  const onFailed = () => {
    isNoted = true
  }
  const { isOk, fault, seconds } = await runFile(file, {
    timeoutMs,
    onParser: (parser) => watch(parser, [file], onFailed),
  })
  // It may have crashed or timed out outside of every test.
  if (fault !== undefined) failures.push({ path: [file], diag: { fault } })
  if (!isOk && !isNoted) note('failed', [file])
  console.log(`${isOk ? 'ok    ' : 'FAILED'} ${file} (${seconds.toFixed(1)} s)`)
  for (const failure of failures.filter(({ path }) => path[0] === file)) describe(failure)
}

function describe({ path, diag }) {
  console.log(`\nnot ok ${path.join(' > ')}`)
  for (const [key, value] of Object.entries(diag ?? {}))
    if (key !== 'source') console.log(`  ${key}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
}

const listFiles = () =>
  readdirSync(new URL('../test', import.meta.url), { recursive: true })
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => `test/${file}`)
    .sort()

// Running test files end with this process.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1))

const named = process.argv.slice(2)
const waiting = named.length > 0 ? named : listFiles()
const work = async () => {
  for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) await run(file)
}
await Promise.all(Array.from({ length: jobs }, work))

// Once more, where a long run is read from its end.
if (named.length !== 1) failures.forEach(describe)
console.log(`\n${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`)
process.exit(count.failed === 0 && count.passed > 0 ? 0 : 1)
