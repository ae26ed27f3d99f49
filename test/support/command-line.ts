import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'

const program = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

/** Variables of the machine must not reach the commands under test. */
const bare = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '' }

export type Ended = Readonly<{ code: number | null; stdout: string; stderr: string }>

/** Runs `sallyport` as users do, to its end. */
export async function runCommand(
  args: readonly string[],
  options: Readonly<{ cwd?: string; env?: Readonly<Record<string, string>>; input?: string }> = {},
): Promise<Ended> {
  const child = spawn(process.execPath, [program, ...args], {
    cwd: options.cwd ?? tmpdir(),
    env: { ...bare, ...options.env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  // A command that does not read its input may end first.
  child.stdin.on('error', () => undefined).end(options.input ?? '')
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const)
    child[name].on('data', (chunk: Buffer) => {
      output[name] += chunk.toString()
    })
  const [code] = await once(child, 'close')
  return { code, ...output }
}
