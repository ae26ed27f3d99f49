// `npm test [-- FILE…]`: installs what is missing, builds, runs every test, and closes with the counts. `--fast` leaves
// files out that start an outside program or a campaign; `--behavior` leaves those out that any version of Node answers alike.
// `--gate` runs the `*.gate.ts` instead.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { build } from './build.js'
import { install } from './install.js'
import { longest } from './longest-tests.js'

/** Files start servers and wait for real time-outs; on a busy machine that takes a while. A campaign has a day. */
const timeoutMs = process.env.CAMPAIGN ? 86_400_000 : 900_000

/** Much of a file's time is spent in waiting, so that more of them than processors are done sooner. */
const jobs = Number(process.env.TEST_JOBS) || availableParallelism() + 4

const named = process.argv.slice(2).filter((word) => !word.startsWith('--'))
const options = new Set(process.argv.slice(2).filter((word) => word.startsWith('--')))

const count = { passed: 0, failed: 0, skipped: 0, starts: 0 }
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

/** Files take turns in a process. One that changes or measures its process begins with a line that says so. */
const wantsOwnProcess = (file) => /^\/\/ In a process of its own: /.test(readFileSync(file, 'utf8'))

const startsDatabase = (file) => /startTest(World|Database)\(/.test(readFileSync(file, 'utf8'))

async function run(file, worker) {
  let isNoted = false
  const onFailed = () => {
    isNoted = true
  }
  const { isOk, fault, seconds, processorSeconds, starts } = await worker.run(file, {
    timeoutMs,
    onParser: (parser) => watch(parser, [file], onFailed),
  })
  // It may have crashed or timed out outside of every test.
  if (fault !== undefined) failures.push({ path: [file], diag: { fault } })
  if (!isOk && !isNoted) note('failed', [file])
  count.starts += starts
  const costs = [`${seconds.toFixed(1)} s`]
  if (processorSeconds !== undefined) costs.push(`${processorSeconds.toFixed(1)} s of a processor`)
  if (starts > 0) costs.push(`${starts} ${starts === 1 ? 'start' : 'starts'}`)
  console.log(`${isOk ? 'ok    ' : 'FAILED'} ${file} (${costs.join(', ')})`)
  for (const failure of failures.filter(({ path }) => path[0] === file)) describe(failure)
}

function describe({ path, diag }) {
  console.log(`\nnot ok ${path.join(' > ')}`)
  for (const [key, value] of Object.entries(diag ?? {}))
    if (key !== 'source') console.log(`  ${key}: ${typeof value === 'string' ? value : render(value)}`)
}

/** A certificate in an error leads to itself. */
function render(value) {
  try {
    return JSON.stringify(value)
  } catch {
    return inspect(value)
  }
}

/** Words by which a file asks for PostgreSQL, another program, or a size of its campaign, or says that it measures time or memory. */
const slowWords =
  /\b(startTest(World|Database|Postgres)|startPostgres|startServing|runServe|startReplica|runCommand|runProcess|testRedis|testRedisServer|testChromium|testPrometheus|testUnlessLacking|CAMPAIGN)\b|: it measures/

/** Imports of helpers that start a world or a database on a file's behalf. */
const slowHelpers = /\bstartProxy\b[^}]*\} from '[^']+\/proxy\.ts'|\/standby\.ts'|\blistDrills\b/

/**
 * Files about scripts, packages, pages, benches and drills, and about the demo, which no package holds. Others are about a
 * program at the other side of a connection, such as a proxy.
 */
const nodeless =
  /^test\/(architecture\.test\.ts|(bench|demo|deploy|drills|integrate(?!\/verify-frameworks)|reference|scripts)\/)/

function isSlow(file) {
  const text = readFileSync(file, 'utf8')
  return slowWords.test(text) || slowHelpers.test(text) || file.startsWith('test/scripts/')
}

const isWanted = (file) =>
  !(options.has('--fast') && isSlow(file)) && !(options.has('--behavior') && nodeless.test(file))

const placeOf = (file) => (longest.includes(file) ? longest.indexOf(file) : longest.length)

/** The longest first: one that begins last would run alone. Size tells of those whose time is not known. */
const byLength = (one, other) => placeOf(one) - placeOf(other) || statSync(other).size - statSync(one).size

const ending = options.has('--gate') ? '.gate.ts' : '.test.ts'

const listFiles = () =>
  readdirSync(new URL('../test', import.meta.url), { recursive: true })
    .filter((file) => file.endsWith(ending))
    .map((file) => `test/${file}`)
    .sort(byLength)

// Running test files end with this process.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1))

const waiting = (named.length > 0 ? named : listFiles()).filter(isWanted)
const work = async () => {
  let idle
  for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
    const isAlone = wantsOwnProcess(file)
    const worker = (!isAlone && idle) || startTestProcess({ database, memoryFolder })
    await run(file, worker)
    if (!isAlone) idle = worker.isSpent() ? undefined : worker
    if (worker !== idle) await worker.stop()
  }
  await idle?.stop()
}

/** Few files need few of the sources. */
async function compile() {
  if (waiting.length < 50) return
  const child = spawn(process.execPath, [fileURLToPath(new URL('compile-tests.js', import.meta.url))], {
    stdio: 'inherit',
  })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`compile-tests.js ended with ${code}`)
}

install()
// In a process of its own, beside the build and the start of the database.
const compiled = compile()
build()
const { startTestProcess } = await import('./test-process.js')
const { findMemoryFolder, startTestDatabase } = await import('./test-database.js')
const memoryFolder = findMemoryFolder()
const [database] = await Promise.all([
  waiting.filter(startsDatabase).length > 1 ? startTestDatabase(memoryFolder) : undefined,
  compiled,
])
await Promise.all(Array.from({ length: Math.min(jobs, waiting.length) }, work))
await database?.stop()

// Once more, where a long run is read from its end.
if (named.length !== 1) failures.forEach(describe)
// Each takes most of a processor's second, so a whole run is to have few.
console.log(`\n${count.starts} starts of sallyport`)
console.log(`${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`)
process.exit(count.failed === 0 && count.passed > 0 ? 0 : 1)
