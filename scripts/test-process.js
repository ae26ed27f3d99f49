import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Parser } from 'tap-parser'

const root = fileURLToPath(new URL('..', import.meta.url))
const loader = new URL('typescript.js', import.meta.url).href
const worker = fileURLToPath(new URL('test-worker.js', import.meta.url))

/**
 * Most gateways of tests end within seconds. On Node 20 V8 spends a quarter of a start on optimizing code that is then used no
 * more. Later versions of Node optimize less, and lack the switch.
 */
const briefly = process.versions.node.startsWith('20.') ? '--interrupt-budget=1000000' : ''

/** Tests leave garbage at once. With V8's own 16 MB a tenth of their processor time goes into copying what ends soon after. */
const youngMegabytes = 64

/** The file ends its own tests in time; this bounds a process that no longer answers. */
const graceMs = 10_000

/** A process that holds more gives way to a new one. */
const mostBytes = 700_000_000

/** The time in which a dead process's descendants must close its output. */
const restMs = 5_000

/**
 * A process that runs one test file after another. `run` hands out the parser of the file's tests before anything is read.
 * Its `fault` is an error outside of every test. A process with `isSpent` takes no other file.
 */
export function startTestProcess({ database, memoryFolder, environment }) {
  const switches = ['--enable-source-maps', `--max-semi-space-size=${youngMegabytes}`, `--import=${loader}`]
  const child = spawn(process.execPath, [...switches, worker], {
    cwd: root,
    env: {
      ...process.env,
      ...environment,
      ...(database && {
        SALLYPORT_TEST_DATABASE: database.url,
        SALLYPORT_TEST_POPULATION: JSON.stringify(database.population),
      }),
      ...(memoryFolder && { SALLYPORT_TEST_MEMORY: memoryFolder }),
      SALLYPORT_TEST_SWITCHES: briefly,
      TAP: '1',
      TAP_TIMEOUT: '0',
    },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  })
  // It has servers to end.
  const end = () => child.kill('SIGTERM')
  process.once('exit', end)
  const parser = new Parser()
  const parsed = new Promise((resolve) => parser.on('complete', resolve))
  child.stdout.pipe(parser)
  const exited = new Promise((resolve) => child.on('exit', (code, signal) => resolve(code ?? signal)))
  void exited.then(() => process.off('exit', end))
  // A message to a dead process.
  child.on('error', () => {})

  let isSpent = false

  async function run(file, { timeoutMs, onParser }) {
    const startedMs = performance.now()
    let results
    const parsedFile = new Promise((resolve) =>
      parser.once('child', (tests) => {
        tests.once('complete', (all) => {
          results = all
          resolve()
        })
        onParser(tests)
      }),
    )
    const said = new Promise((resolve) =>
      child.on('message', function hear(message) {
        // A file may speak to its parent as well.
        if (message.rss === undefined) return
        child.off('message', hear)
        resolve(message)
      }),
    )
    let isLate = false
    const timer = setTimeout(() => {
      isLate = true
      child.kill('SIGKILL')
    }, timeoutMs + graceMs)
    child.send({ file, timeoutMs })
    const code = await Promise.race([Promise.all([parsedFile, said]), exited])
    clearTimeout(timer)
    const isGone = typeof code === 'number' || typeof code === 'string'
    if (isGone) await endOutput()
    const isOk = !isGone && results?.ok === true
    isSpent = !isOk || (await said).rss > mostBytes
    const fault = isLate ? `not done within ${timeoutMs / 1_000} s` : isGone ? `ended with ${code}` : undefined
    const seconds = (performance.now() - startedMs) / 1_000
    const { processorSeconds, starts = 0 } = isGone ? {} : await said
    return { isOk, fault, seconds, processorSeconds, starts }
  }

  async function endOutput() {
    const rest = setTimeout(() => {
      child.stdout.destroy()
      parser.end()
    }, restMs)
    await parsed
    clearTimeout(rest)
  }

  const stop = async () => {
    if (child.connected) child.disconnect()
    const timer = setTimeout(() => child.kill('SIGKILL'), restMs)
    await exited
    clearTimeout(timer)
    child.stdout.destroy()
  }

  return { run, stop, isSpent: () => isSpent }
}
