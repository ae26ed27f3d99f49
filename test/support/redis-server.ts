import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { findFreePort } from '../../demo/free-port.ts'
import { endWithThisProcess } from './end-with-this-process.ts'
import type { Owner } from './owner.ts'

/** A Redis of the test's own, in memory alone, to be treated as badly as a test wants. */
export type RedisServer = Readonly<{
  url: string
  isOwn: true
  /** Undefined while it is down. */
  pid: () => number | undefined
  /** Stops the process: connections stay, but it does not answer. */
  freeze: () => void
  thaw: () => void
  /** `kill -9`; resolves when it is gone. */
  kill: () => Promise<void>
  /** Starts it on the same port again, and empty; one that runs is killed before. */
  restart: () => Promise<void>
  /** Forgets every key. */
  flush: () => Promise<void>
  /** Sends inline commands as an operator may; each must be answered by OK. */
  tell: (...commands: readonly string[]) => Promise<void>
}>

/** Lines of a configuration file. */
export type RedisConfiguration = Readonly<Record<string, string | number>>

const program = 'redis-server'

/** Whether there is one to start. */
export const hasRedisServer = (): boolean => spawnSync(program, ['--version']).status === 0

/** Starts a Redis on a free port of loopback, with a password; it ends with its owner, or with this process. */
export async function startRedisServer(
  owner: Owner,
  { password = drawPassword(), configuration = {} }: RedisServerOptions = {},
): Promise<RedisServer> {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-redis-'))
  let port = await findFreePort()
  let current: ChildProcess | undefined
  const kill = async (): Promise<void> => {
    if (current === undefined) return
    const ended = once(current, 'exit')
    current.kill('SIGKILL')
    await ended
  }
  const start = async (): Promise<void> => {
    const child = await spawnRedis({
      bind: '127.0.0.1',
      port,
      requirepass: password,
      masterauth: password,
      dir: directory,
      save: '""',
      appendonly: 'no',
      ...configuration,
    })
    current = child
    child.once('exit', () => {
      current = undefined
    })
  }
  owner.teardown(async () => {
    await kill()
    rmSync(directory, { recursive: true, force: true })
  })
  // Another process may take the free port before the server binds it.
  await start().catch(async () => {
    port = await findFreePort()
    await start()
  })
  return {
    url: `redis://:${password}@127.0.0.1:${port}`,
    isOwn: true,
    pid: () => current?.pid,
    freeze: () => void current?.kill('SIGSTOP'),
    thaw: () => void current?.kill('SIGCONT'),
    kill,
    restart: async () => {
      await kill()
      await start()
    },
    flush: () => sendCommands(port, [`AUTH ${password}`, 'FLUSHALL']),
    tell: (...commands) => sendCommands(port, [`AUTH ${password}`, ...commands]),
  }
}

export type RedisServerOptions = Readonly<{ password?: string; configuration?: RedisConfiguration }>

export const drawPassword = (): string => randomBytes(18).toString('base64url')

async function spawnRedis(settings: RedisConfiguration): Promise<ChildProcess> {
  const child = spawn(program, ['-'], { stdio: ['pipe', 'pipe', 'inherit'] })
  // By the pipe: every user of the machine can read a command line.
  child.stdin.end(
    Object.entries(settings)
      .map(([name, value]) => `${name} ${value}\n`)
      .join(''),
  )
  await untilSaid(child, 'Ready to accept connections')
  return child
}

/** A sentinel on a free port, with the same password as the primary; it ends with its owner. Gives its port. */
export async function startRedisSentinel(owner: Owner, primary: RedisServer, name: string): Promise<number> {
  const { port: primaryPort, password } = new URL(primary.url)
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-sentinel-'))
  const file = join(directory, 'sentinel.conf')
  const port = await findFreePort()
  const lines = [
    'bind 127.0.0.1',
    `port ${port}`,
    `dir ${directory}`,
    `requirepass ${password}`,
    `sentinel monitor ${name} 127.0.0.1 ${primaryPort} 2`,
    `sentinel auth-pass ${name} ${password}`,
    `sentinel down-after-milliseconds ${name} 500`,
    `sentinel failover-timeout ${name} 3000`,
  ]
  writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 })
  const child = spawn(program, [file, '--sentinel'], { stdio: ['ignore', 'pipe', 'inherit'] })
  owner.teardown(async () => {
    const ended = once(child, 'exit')
    if (child.kill('SIGKILL')) await ended
    rmSync(directory, { recursive: true, force: true })
  })
  await untilSaid(child, 'Sentinel ID is')
  return port
}

/** Masters of a cluster of their own, which share its slots, each on a free port; they end with their owner. */
export async function startRedisCluster(owner: Owner, masters: number): Promise<readonly RedisServer[]> {
  const password = drawPassword()
  const servers: RedisServer[] = []
  for (let index = 0; index < masters; index += 1) servers.push(await startClusterNode(owner, password))
  const share = Math.ceil(clusterSlots / masters)
  const [first] = servers
  for (const [index, server] of servers.entries()) {
    const last = Math.min((index + 1) * share, clusterSlots) - 1
    await server.tell(`CLUSTER ADDSLOTSRANGE ${index * share} ${last}`, `CLUSTER SET-CONFIG-EPOCH ${index + 1}`)
  }
  for (const server of servers.slice(1))
    if (first) await server.tell(`CLUSTER MEET 127.0.0.1 ${new URL(first.url).port} ${busPorts.get(first)}`)
  for (const { url } of servers) await untilWhole(url)
  return servers
}

/** Until a node knows that all slots are served. */
async function untilWhole(url: string): Promise<void> {
  const node = new Redis(url)
  try {
    while (!/cluster_state:ok[\s\S]*cluster_slots_ok:16384/.test(await node.cluster('INFO'))) await sleep(20)
  } finally {
    node.disconnect()
  }
}

const clusterSlots = 16_384

const busPorts = new WeakMap<RedisServer, number>()

async function startClusterNode(owner: Owner, password: string): Promise<RedisServer> {
  // That of the node and 10,000 may be no port.
  const busPort = await findFreePort()
  const configuration = { 'cluster-enabled': 'yes', 'cluster-port': busPort, 'cluster-node-timeout': 1_000 }
  const server = await startRedisServer(owner, { password, configuration })
  busPorts.set(server, busPort)
  return server
}

async function untilSaid(child: ChildProcess, words: string): Promise<void> {
  endWithThisProcess(child)
  let log = ''
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', () => reject(new Error(`redis-server ended: ${log}`)))
    child.stdout?.on('data', (chunk: Buffer) => {
      log += chunk.toString()
      if (log.includes(words)) resolve()
    })
  })
}

/** Sends inline commands on a connection of their own; rejects unless each is answered by OK. */
async function sendCommands(port: number, commands: readonly string[]): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  socket.end(`${[...commands, 'QUIT'].join('\r\n')}\r\n`)
  let answer = ''
  for await (const chunk of socket) answer += String(chunk)
  if (answer !== '+OK\r\n'.repeat(commands.length + 1)) throw new Error(`redis-server answered ${answer}`)
}
