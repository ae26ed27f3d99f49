import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findFreePort } from '../../gateway/demo/free-port.ts'
import { endWithThisProcess } from './end-with-this-process.ts'
import type { Owner } from './owner.ts'

/** A Redis of the test's own, in memory alone, to be treated as badly as a test wants. */
export type RedisServer = Readonly<{
  url: string
  isOwn: true
  /** Undefined while it is down. */
  pid: () => number | undefined
  /** Stops the process in its tracks: connections stay, nobody answers. */
  freeze: () => void
  thaw: () => void
  /** `kill -9`; resolves when it is gone. */
  kill: () => Promise<void>
  /** Starts it on the same port again, and empty; one that runs is killed before. */
  restart: () => Promise<void>
  /** Forgets every key. */
  flush: () => Promise<void>
}>

const program = 'redis-server'

/** Whether there is one to start. */
export const hasRedisServer = (): boolean => spawnSync(program, ['--version']).status === 0

/** Starts a Redis on a free port of loopback, with a password; it ends with its owner, or with this process. */
export async function startRedisServer(owner: Owner): Promise<RedisServer> {
  const password = randomBytes(18).toString('base64url')
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
    const child = await spawnRedis(port, password, directory)
    current = child
    child.once('exit', () => {
      current = undefined
    })
  }
  owner.teardown(async () => {
    await kill()
    rmSync(directory, { recursive: true, force: true })
  })
  // Somebody may take the free port between our look and the server's bind.
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
  }
}

async function spawnRedis(port: number, password: string, directory: string): Promise<ChildProcess> {
  const child = spawn(program, ['-'], { stdio: ['pipe', 'pipe', 'inherit'] })
  const settings = { bind: '127.0.0.1', port, requirepass: password, dir: directory, save: '""', appendonly: 'no' }
  // By the pipe: a command line can be read by everybody on the machine.
  child.stdin.end(
    Object.entries(settings)
      .map(([name, value]) => `${name} ${value}\n`)
      .join(''),
  )
  endWithThisProcess(child)
  let log = ''
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', () => reject(new Error(`redis-server ended: ${log}`)))
    child.stdout.on('data', (chunk: Buffer) => {
      log += chunk.toString()
      if (log.includes('Ready to accept connections')) resolve()
    })
  })
  return child
}

/** Sends inline commands on a connection of their own; rejects unless each is answered by OK. */
async function sendCommands(port: number, commands: readonly string[]): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  socket.end(`${[...commands, 'QUIT'].join('\r\n')}\r\n`)
  let answer = ''
  for await (const chunk of socket) answer += String(chunk)
  if (answer !== '+OK\r\n'.repeat(commands.length + 1)) throw new Error(`redis-server answered ${answer}`)
}
