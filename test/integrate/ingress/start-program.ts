import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { endWithThisProcess } from '../../support/end-with-this-process.ts'
import { until } from '../../support/gateway.ts'
import type { Owner } from '../../support/owner.ts'

export type ProgramOptions = Readonly<{
  path: string
  args: readonly string[]
  environment?: Readonly<Record<string, string>>
  /** Its working directory and its `HOME`. */
  folder: string
  /** The program has started when this port accepts connections. */
  port: number
}>

/**
 * Starts a server, waits until it listens, and resolves to its process id. It ends with its owner, or with this process
 * if that is killed.
 */
export async function startProgram(owner: Owner, options: ProgramOptions): Promise<number> {
  const { path, args, environment = {}, folder, port } = options
  const child = spawn(path, args, {
    cwd: folder,
    // No other variable of this machine may change what the program does.
    env: { PATH: process.env.PATH, HOME: folder, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  endWithThisProcess(child)
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (bytes: Buffer) => {
      output += bytes.toString()
    })
  let isGone = false
  const ended = once(child, 'exit').then(() => {
    isGone = true
  })
  owner.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  await until(async () => isGone || (await isOpen(port)), `${path}: ${output}`, 30_000)
  if (isGone) throw new Error(`${path} ended: ${output}`)
  return child.pid ?? 0
}

const isOpen = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    const tell = (is: boolean) => (): void => {
      socket.destroy()
      resolve(is)
    }
    socket.once('connect', tell(true))
    socket.once('error', tell(false))
  })
