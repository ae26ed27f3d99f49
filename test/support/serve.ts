import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { generatePem } from '../../gateway/tools/cli/keys.ts'
import type { JsonValue } from './client.ts'
import { type Ended, runCommand } from './command-line.ts'
import { nodeSwitches } from './node-switches.ts'
import { pressConfiguration, pressEnvironment } from './press/press.ts'
import { frontFor } from './press/tls-ends.ts'
import type { TestWorld } from './world.ts'

/** `sallyport serve` in a process of its own, and whatever processes it starts. */
export type Serve = Readonly<{
  child: ChildProcess
  pid: number
  /** The lines of its log so far, and those of its audit, from standard output. */
  log: () => readonly JsonValue[]
  audit: () => readonly JsonValue[]
  stdout: () => string
  stderr: () => string
  /** The exit code, null where a signal ended it. */
  ended: Promise<number | null>
}>

export type Serving = Serve & Readonly<{ public: string; decision: string; admin: string }>

export type ServeOptions = Readonly<{
  /** Needed for a database; without a world only public routes answer. */
  world?: Pick<TestWorld, 'databaseUrl' | 'oidc'> & Partial<Pick<TestWorld, 'patience'>>
  /** Whole top-level sections of the configuration. */
  settings?: Readonly<Record<string, unknown>>
  /** The address of every upstream. */
  upstream?: string
  /** A script that every process of the gateway runs first. */
  preload?: string
  /** The limit of open files (`ulimit -n`), where it is not the machine's own. */
  descriptors?: number
  /** More variables. */
  environment?: Readonly<Record<string, string>>
  /** Descriptors in place of pipes to this process. */
  output?: Readonly<{ stdout?: number; stderr?: number }>
  /** A command with its arguments, which runs the program. */
  within?: readonly string[]
  /** A folder that becomes `node_modules` beside the configuration. */
  packages?: string
}>

/** The compiled program, since only that is what users run. */
const program = fileURLToPath(new URL('../../dist/gateway/main.js', import.meta.url))
const policies = fileURLToPath(new URL('../../policies', import.meta.url))

/** Nothing listens on port 1. */
const nowhere = 'http://127.0.0.1:1'

const anyPort = { host: '127.0.0.1', port: 0 }

/**
 * Starts the program with the shipped policies, in a process group of its own as a terminal would. The group ends with
 * the test.
 */
export function runServe(t: Test, options: ServeOptions): Serve {
  const directory = writeInstallation(t, options)
  const { preload, descriptors, environment, within, packages, output = {} } = options
  if (packages !== undefined) symlinkSync(packages, join(directory, 'node_modules'))
  if (preload !== undefined) writeFileSync(join(directory, 'preload.cjs'), preload)
  const child = fork(program, ['serve', '--config', 'gateway.yaml'], {
    cwd: directory,
    env: {
      // Other variables of the machine must not reach it.
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      ...pressEnvironment({
        ...environment,
        ...(preload !== undefined && { NODE_OPTIONS: `--require ${join(directory, 'preload.cjs')}` }),
      }),
    },
    ...runWithin(descriptors === undefined ? within : ['/bin/sh', '-c', `ulimit -n ${descriptors}; exec "$0" "$@"`]),
    detached: true,
    stdio: ['ignore', output.stdout ?? 'pipe', output.stderr ?? 'pipe', 'ipc'],
  })
  const pid = child.pid ?? 0
  t.teardown(() => signalGroup(pid, 'SIGKILL'))
  let stdout = ''
  let stderr = ''
  child.stdout?.on('data', (chunk: Buffer) => {
    stdout += chunk.toString()
  })
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk.toString()
  })
  const lines: JsonValue[] = []
  let readTo = 0
  // Tests look again and again, and each line is parsed once.
  const readLines = (): readonly JsonValue[] => {
    const end = stdout.lastIndexOf('\n') + 1
    if (end > readTo)
      lines.push(
        ...stdout
          .slice(readTo, end - 1)
          .split('\n')
          .map((line): JsonValue => JSON.parse(line)),
      )
    readTo = end
    return lines
  }
  return {
    child,
    pid,
    stdout: () => stdout,
    stderr: () => stderr,
    log: () => readLines().filter(({ audit }) => audit === undefined),
    audit: () => readLines().filter(({ audit }) => audit !== undefined),
    ended: waitForEnd(child),
  }
}

/**
 * Runs `sallyport serve` to its end, which is the refusal of its configuration. Such starts take turns in one process, where
 * each would otherwise take most of a processor's second.
 */
export const runRefused = (t: Test, options: ServeOptions): Promise<Ended> =>
  runCommand(['serve', '--config', 'gateway.yaml'], { cwd: writeInstallation(t, options) })

function runWithin([execPath, ...words]: readonly string[] = []) {
  if (execPath === undefined) return { execArgv: [...nodeSwitches] }
  return { execPath, execArgv: [...words, process.execPath, ...nodeSwitches] }
}

/** The streams of a group are closed when its last process is gone. (`close` of a child stays out after `disconnect`.) */
async function waitForEnd(child: ChildProcess): Promise<number | null> {
  const streams = [child.stdout, child.stderr].map((stream) => stream && once(stream, 'close'))
  const [[code]] = await Promise.all([once(child, 'exit'), ...streams])
  return code as number | null
}

type Address = Readonly<{ host: string; port: number }>

/** Starts the program, and waits until it tells its addresses. */
export async function startServing(t: Test, options: ServeOptions): Promise<Serving> {
  const serve = runServe(t, options)
  const ready = once(serve.child, 'message').then(
    ([message]) => message as Record<'public' | 'decision' | 'admin', Address>,
  )
  const addresses = await Promise.race([ready, serve.ended])
  if (addresses === null || typeof addresses === 'number')
    throw new Error(`sallyport serve did not start: ${serve.stderr()}`)
  return {
    ...serve,
    public: await frontFor(t, toUrl(addresses.public), options.settings?.listeners),
    decision: toUrl(addresses.decision),
    admin: toUrl(addresses.admin),
  }
}

function writeInstallation(t: Test, { world, settings, upstream = nowhere }: ServeOptions): string {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  writeFileSync(join(directory, 'identity.pem'), generatePem('EdDSA'), { mode: 0o600 })
  const names = ['platform', 'agents', 'files', 'graphql', 'data']
  const configuration = {
    listeners: { public: anyPort, decision: anyPort, admin: anyPort },
    database: { url: world?.databaseUrl ?? 'postgres://nobody@127.0.0.1:1/nowhere', ...world?.patience },
    issuers: [{ issuer: world?.oidc.issuer ?? nowhere, audience: 'sallyport-demo' }],
    identity: { keys: ['file:identity.pem'] },
    upstreams: Object.fromEntries(names.map((name) => [name, { url: upstream }])),
    policies: { directory: policies },
    drain: { delayMs: 0, timeoutMs: 5_000 },
    ...settings,
  }
  writeFileSync(join(directory, 'gateway.yaml'), JSON.stringify(pressConfiguration(configuration)))
  return directory
}

/** Signals every process of a group, as a terminal does; a group that is gone hears nothing. */
export function signalGroup(leader: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-leader, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** True while a process runs and is not a zombie; on Linux. */
export function isAlive(pid: number): boolean {
  try {
    return !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false // it is gone
  }
}

const toUrl = ({ host, port }: Address): string => `http://${host}:${port}`
