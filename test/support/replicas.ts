import { fork } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readNodeOptions } from './dockerfile.ts'
import { type TestGatewayOptions, writeConfiguration } from './gateway.ts'
import { nodeSwitches } from './node-switches.ts'
import type { Owner } from './owner.ts'
import { pressEnvironment } from './press/press.ts'
import { frontFor } from './press/tls-ends.ts'

/** A gateway of a world in a process of its own, as production runs several. */
export type Replica = Readonly<{
  pid: number
  public: string
  decision: string
  admin: string
  /** Empty unless the settings have the listener. */
  signals: string
  logFile: string
  readLog: () => string
  /** By default drains without a load balancer's delay; resolves to the exit code, 1 where a signal ended it. */
  stop: (signal?: NodeJS.Signals) => Promise<number>
  /** Says something to it that only what `NODE_OPTIONS` preloads understands, and resolves to the answer. */
  ask: (question: string) => Promise<unknown>
  /** `kill -9`; resolves when it is gone. */
  kill: () => Promise<void>
}>

type Address = Readonly<{ host: string; port: number }>

type Addresses = Readonly<Record<'public' | 'decision' | 'admin', Address> & { signals?: Address }>

/** A compiled program, what its image starts Node with, and that Node where it is not this process'. */
export type Build = Readonly<{ program: string; nodeOptions: readonly string[]; node?: string }>

/** The compiled program, since users run that. */
const own = fileURLToPath(new URL('../../dist/gateway/main.js', import.meta.url))

type Environment = Readonly<Record<string, string>>

/** Starts `sallyport serve` as the image does, on free ports, and waits until it listens. */
export async function startReplica(
  owner: Owner,
  options: TestGatewayOptions,
  environment: Environment = {},
  output?: number,
  within: readonly string[] = [],
): Promise<Replica> {
  const file = writeConfiguration(owner, { ...options, settings: { log: { level: 'info' }, ...options.settings } })
  const replica = await serveBuild(owner, file, environment, output, within)
  return { ...replica, public: await frontFor(owner, replica.public, options.settings?.listeners) }
}

/** Starts this build as the image does. */
export function serveBuild(
  owner: Owner,
  file: string,
  environment: Environment,
  output?: number,
  within: readonly string[] = [],
): Promise<Replica> {
  const [node = process.execPath, ...nodeOptions] = [...within, process.execPath, ...readNodeOptions(), ...nodeSwitches]
  return serveFile(owner, file, pressEnvironment(environment), { program: own, node, nodeOptions }, output)
}

/**
 * Starts a build with a configuration file; `output` is a descriptor in place of its log file. It ends with its owner, and with this
 * process however that ends.
 */
export async function serveFile(
  owner: Owner,
  file: string,
  environment: Environment,
  { program, nodeOptions, node = process.execPath }: Build,
  output?: number,
): Promise<Replica> {
  const logFile = join(dirname(file), 'gateway.log')
  const log = openSync(logFile, 'w', 0o600)
  const child = fork(program, ['serve', '--config', file], {
    // Variables of the machine must not reach it.
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...environment },
    execPath: node,
    execArgv: [...nodeOptions],
    stdio: ['ignore', output ?? log, log, 'ipc'],
  })
  closeSync(log)
  const ended = once(child, 'exit').then(([code]) => (typeof code === 'number' ? code : 1))
  const end = async (signal: NodeJS.Signals): Promise<number> => {
    child.kill(signal)
    return ended
  }
  owner.teardown(() => end('SIGKILL'))
  const ready = once(child, 'message').then(([message]) => message as Addresses)
  const addresses = await Promise.race([ready, ended.then(() => undefined)])
  const readLog = (): string => readFileSync(logFile, 'utf8')
  if (!addresses) throw new Error(`the replica did not start: ${readLog()}`)
  return {
    pid: child.pid ?? 0,
    public: toUrl(addresses.public),
    decision: toUrl(addresses.decision),
    admin: toUrl(addresses.admin),
    signals: addresses.signals ? toUrl(addresses.signals) : '',
    logFile,
    readLog,
    stop: (signal = 'SIGINT') => end(signal),
    ask: async (question) => {
      const answered = once(child, 'message')
      child.send(question)
      const [answer] = await answered
      return answer
    },
    kill: async () => {
      await end('SIGKILL')
    },
  }
}

const toUrl = ({ host, port }: Address): string => `http://${host}:${port}`
