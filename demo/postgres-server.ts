import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type Account, programEnvironment } from './postgres-account.ts'

export type ServerCommand = Readonly<{
  program: string
  account: Account
  directory: string
  data: string
  port: number
  settings?: readonly string[]
}>

export type ServerRun = Readonly<{ child: ChildProcess; ended: Promise<string>; readLog: () => string }>

export type SupervisedServer = Readonly<{ pid: () => number | undefined; stop: () => Promise<void> }>

const restartDelayMs = 3000
const quitAfterMs = 3000
const killAfterMs = 5000
const logTailLength = 4000

const settings = [
  'listen_addresses=127.0.0.1',
  'unix_socket_directories=',
  'max_connections=100',
  'shared_buffers=16MB',
  // Data is lost only with the machine. synchronous_commit stays on: a killed server must keep confirmed writes.
  'fsync=off',
  'full_page_writes=off',
  'wal_level=minimal',
  'max_wal_senders=0',
  'io_method=sync',
  'dynamic_shared_memory_type=mmap',
  'log_checkpoints=off',
  // A failing statement may hold a password, so the log leaves it out.
  'log_min_error_statement=panic',
]

export function spawnServer({
  program,
  account,
  directory,
  data,
  port,
  settings: more = [],
}: ServerCommand): ServerRun {
  const args = ['-D', data, '-p', String(port), ...[...settings, ...more].flatMap((setting) => ['-c', setting])]
  const child = spawn(program, args, {
    ...account,
    cwd: directory, // The watchdog finds the server here, until it changes to its data directory.
    env: programEnvironment,
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let log = ''
  child.stderr.on('data', (chunk: Buffer) => {
    log = (log + chunk.toString()).slice(-logTailLength)
  })
  const ended = once(child, 'exit').then(
    ([code, signal]) => (signal === null ? `ended with exit code ${code}` : `was ended by ${signal}`),
    (error: Error) => `could not be run (${error.message})`,
  )
  return { child, ended, readLog: () => log }
}

export function superviseServer(
  command: ServerCommand,
  first: ServerRun,
  onUnexpectedExit: (detail: string) => void,
): SupervisedServer {
  let current: ServerRun | undefined
  let restart: NodeJS.Timeout | undefined
  let isStopping = false

  const watch = (run: ServerRun): void => {
    current = run
    void run.ended.then((manner) => {
      current = undefined
      if (isStopping) return
      restart = setTimeout(() => watch(spawnServer(command)), restartDelayMs)
      onUnexpectedExit(`PostgreSQL ${manner}; starting it again in ${restartDelayMs / 1000} s`)
    })
  }
  watch(first)

  return {
    pid: () => current?.child.pid,
    stop: async () => {
      isStopping = true
      clearTimeout(restart)
      if (current !== undefined) await stopServer(current)
    },
  }
}

export async function stopServer({ child, ended }: ServerRun): Promise<void> {
  const quit = setTimeout(() => child.kill('SIGQUIT'), quitAfterMs)
  const kill = setTimeout(() => child.kill('SIGKILL'), killAfterMs)
  child.kill('SIGINT')
  await ended
  clearTimeout(quit)
  clearTimeout(kill)
}
