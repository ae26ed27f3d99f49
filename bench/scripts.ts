import { fork } from 'node:child_process'
import { once } from 'node:events'
import { constants, getPriority, setPriority } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { Owner } from '../test/support/owner.ts'

/** A program of this folder in a process of its own, which answers each message with one. */
export type Script = Readonly<{
  answer: () => Promise<unknown>
  ask: (message: object | number) => Promise<unknown>
}>

/**
 * Work of `elsewhere` has machines of its own in production, so it comes behind the gateway where both want the processor.
 * Work of `ahead` takes times or is part of them, so it comes first where this process may say so: only root's may.
 */
export type ScriptPlace = 'ahead' | 'elsewhere'

/** About a tenth of the processor beside a process that wants all of it. */
const elsewhereNiceness = 10

export function startScript(owner: Owner, name: string, place: ScriptPlace): Script {
  const script = fileURLToPath(new URL(name, import.meta.url))
  const child = fork(script, { execArgv: [`--import=${new URL('typescript.js', import.meta.url)}`] })
  owner.teardown(() => child.kill())
  if (child.pid !== undefined) (place === 'elsewhere' ? putElsewhere : putAhead)(child.pid)
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`${name} ended with ${code}`)
  })
  ended.catch(() => undefined)
  const answer = async (): Promise<unknown> => (await Promise.race([once(child, 'message'), ended]))[0]
  return {
    answer,
    ask: (message) => {
      const answered = answer()
      child.send(message)
      return answered
    },
  }
}

/** Lowers the priority of a process. Only children that it starts later inherit that. */
export const putElsewhere = (pid: number): void =>
  setPriority(pid, Math.min(constants.priority.PRIORITY_LOW, getPriority() + elsewhereNiceness))

function putAhead(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_HIGH)
  } catch {
    console.error(
      'measured requests have no priority, which only root may give: their times include waits of their client',
    )
  }
}

/** One clock for all processes of the machine, unlike `performance.now`. */
export const systemMs = (): number => Number(process.hrtime.bigint()) / 1_000_000
