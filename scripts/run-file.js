import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Parser } from 'tap-parser'

const root = fileURLToPath(new URL('..', import.meta.url))
const loader = new URL('typescript.js', import.meta.url).href

/** Longer than any of its tests may take by themselves. */
const graceMs = 10_000

/** How long something that a dead process has left behind may hold its output open. */
const restMs = 5_000

/**
 * Runs one test file in a process of its own, and hands its parser out before anything is read. Resolves when the process has
 * ended and all that it said is parsed: `fault` is what went wrong outside of every test.
 */
export async function runFile(file, { timeoutMs, onParser }) {
  const parser = new Parser()
  onParser(parser)
  const startedMs = performance.now()
  const child = spawn(process.execPath, ['--enable-source-maps', `--import=${loader}`, file], {
    cwd: root,
    env: { ...process.env, TAP: '1', TAP_TIMEOUT: String(timeoutMs / 1_000) },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  // It has servers of its own to end.
  const end = () => child.kill('SIGTERM')
  process.once('exit', end)
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    child.kill('SIGKILL')
  }, timeoutMs + graceMs)
  const parsed = new Promise((resolve) => parser.on('complete', resolve))
  child.stdout.pipe(parser)
  const code = await new Promise((resolve) => child.on('exit', (code, signal) => resolve(code ?? signal)))
  clearTimeout(timer)
  process.off('exit', end)
  const rest = setTimeout(() => {
    child.stdout.destroy()
    parser.end()
  }, restMs)
  const results = await parsed
  clearTimeout(rest)
  const fault = isLate
    ? `not done within ${timeoutMs / 1_000} s`
    : results.ok && code !== 0
      ? `ended with ${code}`
      : undefined
  return { isOk: results.ok && code === 0, fault, seconds: (performance.now() - startedMs) / 1_000 }
}
