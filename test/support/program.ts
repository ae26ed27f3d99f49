import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { endWithThisProcess } from './end-with-this-process.ts'
import type { Owner } from './owner.ts'

/** A server of another project, which the test may kill or freeze. */
export type Program = Readonly<{
  /** Resolves once the program is ready. */
  start: () => Promise<void>
  /** `kill -9`; resolves when it is gone. */
  kill: () => Promise<void>
  /** `kill -STOP`; resolves when it stands still. */
  freeze: () => Promise<void>
  thaw: () => void
}>

type ProgramOptions = Readonly<{ command: string; args: readonly string[]; health: string; cwd?: string }>

/** The program ends with its owner, or with this process. */
export function prepareProgram(owner: Owner, { command, args, health, cwd }: ProgramOptions): Program {
  let child: ChildProcess | undefined
  const isRunning = (): boolean => child !== undefined && child.exitCode === null && child.signalCode === null
  const kill = async (): Promise<void> => {
    if (!child || !isRunning()) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }
  owner.teardown(kill)
  const isReady = () =>
    fetch(health).then(
      ({ ok }) => ok,
      () => false,
    )
  return {
    kill,
    start: async () => {
      const env = { PATH: process.env.PATH }
      const started = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'], ...(cwd && { cwd }) })
      child = started
      endWithThisProcess(started)
      let log = ''
      for (const stream of [started.stdout, started.stderr])
        stream.on('data', (chunk: Buffer) => {
          log = (log + chunk.toString()).slice(-10_000)
        })
      while (!(await isReady())) {
        if (!isRunning()) throw new Error(`${command} ended: ${log}`)
        await sleep(50)
      }
    },
    freeze: async () => {
      child?.kill('SIGSTOP')
      const status = `/proc/${child?.pid}/status`
      while (!/^State:\s+T/m.test(readFileSync(status, 'utf8'))) await sleep(5)
    },
    thaw: () => void child?.kill('SIGCONT'),
  }
}
