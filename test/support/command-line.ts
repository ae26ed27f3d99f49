import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { nodeSwitches } from './node-switches.ts'

const program = fileURLToPath(new URL('../../dist/gateway/main.js', import.meta.url))

/** Variables of the machine must not reach the commands under test. */
const bare = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '' }

export type Ended = Readonly<{ code: number | null; stdout: string; stderr: string }>

export type CommandOptions = Readonly<{
  cwd?: string
  env?: Readonly<Record<string, string>>
  input?: string
}>

/** Runs `sallyport` as users do, in a process of its own, to its end. */
export async function runProcess(args: readonly string[], options: CommandOptions = {}): Promise<Ended> {
  const child = spawn(process.execPath, [...nodeSwitches, program, ...args], {
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

let host: ChildProcess | undefined
let previous: Promise<unknown> = Promise.resolve()

/** Runs `sallyport` to its end in a process that keeps its modules for the next command; commands take turns there. */
export function runCommand(args: readonly string[], options: CommandOptions = {}): Promise<Ended> {
  const turn = previous.then(() => runInHost(args, options))
  previous = turn.catch(() => undefined)
  return turn
}

async function runInHost(args: readonly string[], { cwd = tmpdir(), env = {}, input = '' }: CommandOptions) {
  host ??= startHost()
  const abort = new AbortController()
  const failed = once(host, 'exit', { signal: abort.signal }).then(([code]) => {
    throw new Error(`the host of commands ended with ${code}: ${args.join(' ')}`)
  })
  host.ref()
  host.channel?.ref()
  try {
    host.send({ program, args, cwd, env: { ...bare, ...env }, input })
    const [{ isSpent, ...ended }] = await Promise.race([once(host, 'message', { signal: abort.signal }), failed])
    if (isSpent) dropHost()
    return ended as Ended
  } finally {
    failed.catch(() => undefined)
    abort.abort()
    host?.unref()
    host?.channel?.unref()
  }
}

/** It ends with its channel, and so with this process. */
function startHost(): ChildProcess {
  const child = fork(new URL('command-host.js', import.meta.url), {
    env: bare,
    execArgv: [...nodeSwitches],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  child.once('exit', () => {
    if (host === child) host = undefined
  })
  return child
}

function dropHost(): void {
  host?.disconnect()
  host = undefined
}
