import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'

/** Runs a bench as its npm script does, but on the Node that runs the tests. */
export async function runBench(t: Test, name: string, ...options: readonly string[]) {
  const script = fileURLToPath(new URL('run.js', import.meta.url))
  const { PATH, HOME, REDIS_URL } = process.env
  const child = spawn(process.execPath, [script, name, ...options], {
    env: { PATH, HOME, BENCH_NODE: process.execPath, ...(REDIS_URL && { REDIS_URL }) },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => child.kill())
  const output = { stdout: '', stderr: '' }
  for (const stream of ['stdout', 'stderr'] as const)
    child[stream].on('data', (chunk: Buffer) => {
      output[stream] += chunk.toString()
    })
  const [code] = await once(child, 'close')
  return { code, ...output }
}
