import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { describePythonLack, findPython, type PythonEnvironment } from '../../integrate/python.ts'
import { testUnlessLacking } from '../../support/lacks.ts'
import type { Owner } from '../../support/owner.ts'
import type { Outcome, Sdk } from './sdk.ts'

const program = fileURLToPath(new URL('program.py', import.meta.url))
/** A test with Python's SDK. Without it the test is skipped, visibly; with `REQUIRE_ALL=1` it fails. */
export function testPython(t: Test, name: PythonEnvironment, run: (t: Test, sdk: Sdk) => Promise<unknown>): void {
  const interpreter = findPython(name)
  const title = `${name} for Python`
  if (interpreter) void t.test(title, async (t) => run(t, await startPythonSdk(t, interpreter)))
  else testUnlessLacking(t, title, async () => undefined, describePythonLack(name))
}

/** Starts an interpreter that has the `openai` package; it ends with its owner. */
async function startPythonSdk(owner: Owner, interpreter: string): Promise<Sdk> {
  const child = spawn(interpreter, ['-I', program], {
    // Variables of the machine, such as those of a proxy, must not reach it.
    env: { PATH: process.env.PATH },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit').then(([code]) => Promise.reject(new Error(`${interpreter} ended with ${code}`)))
  ended.catch(() => undefined)
  // A write to a program that has ended shows in `ended` alone.
  child.stdin.on('error', () => undefined)
  owner.teardown(() => child.kill('SIGKILL'))
  const lines = createInterface(child.stdout)
  const waiting = new Map<number, (outcome: Outcome) => void>()
  const [version] = await Promise.race([once(lines, 'line'), ended])
  lines.on('line', (line) => {
    const [number, outcome]: [number, Outcome] = JSON.parse(line)
    waiting.get(number)?.(outcome)
    waiting.delete(number)
  })
  // Version 1 lets what its HTTP library raises through, once a stream was asked for.
  const whileStreaming = String(version).startsWith('1.') ? 'RemoteProtocolError' : 'APIConnectionError'
  let count = 0
  return {
    clients: ['OpenAI', 'AsyncOpenAI'],
    failedFinal: 'raises',
    halfAnswers: { create: 'APIConnectionError', iterate: whileStreaming, helper: whileStreaming },
    createsAgain: true,
    ask: (call, client) => {
      const number = count++
      const answered = new Promise<Outcome>((resolve) => waiting.set(number, resolve))
      child.stdin.write(`${JSON.stringify([number, client, call])}\n`)
      return Promise.race([answered, ended])
    },
  }
}
