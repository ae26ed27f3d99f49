import cluster, { type Worker } from 'node:cluster'
import { guarded } from '../../base/fault/guarded.ts'
import type { Failure } from '../../configuration/failure.ts'
import {
  type Assignment,
  type DrainTimes,
  type ListenerAddresses,
  type WorkerAnswer,
  type WorkerCommand,
  type WorkerMessage,
  type WorkerQuery,
  type WorkerQuestion,
  writeAssignment,
} from './messages.ts'

export type WorkerEnd = Readonly<{
  code: number | null
  signal: string | null
  failure: Failure | undefined
}>

export type WorkerProcess = Readonly<{
  number: number
  pid: number
  served: Promise<ListenerAddresses>
  isGone: () => boolean
  ended: Promise<WorkerEnd>
  ask: <Name extends WorkerQuestion>(
    question: Name,
    withinMs: number,
    query?: WorkerQuery<Name>,
  ) => Promise<WorkerAnswer<Name>>
  isHeard: (withinMs: number) => Promise<boolean>
  reload: () => void
  drain: (times: DrainTimes) => void
  kill: () => void
}>

export function forkWorker(assignment: Assignment): WorkerProcess {
  const worker = cluster.fork(writeAssignment(assignment))
  worker.on('error', () => undefined)
  let failure: Failure | undefined
  const send = (order: WorkerCommand): void => {
    if (worker.isConnected()) worker.process.send(order, () => undefined)
  }
  const calls = createCalls(send)
  const served = new Promise<ListenerAddresses>((resolve) => {
    const take = (message: WorkerMessage): void => {
      if (message.kind === 'serving') resolve(message.addresses)
      else if (message.kind === 'failed') failure = message.failure
      else calls.settle(message.id, message.value)
    }
    worker.on('message', guarded('process', take))
  })
  const ask: WorkerProcess['ask'] = async <Name extends WorkerQuestion>(
    question: Name,
    withinMs: number,
    query?: WorkerQuery<Name>,
  ) => {
    const value = await calls.make((id) => ({ kind: 'ask', id, question, query }), withinMs)
    if (value === undefined) throw new Error(`worker ${assignment.number} did not send its ${question}`)
    // The worker answers each question from the function of the same name.
    return value as WorkerAnswer<Name>
  }
  let isGone = false
  const leave = (): void => {
    isGone = true
    calls.giveUp()
  }
  worker.once('exit', guarded('process', leave))
  const ended = waitForEnd(worker).then((end) => {
    leave()
    return { ...end, failure }
  })
  return {
    number: assignment.number,
    pid: worker.process.pid ?? 0,
    served,
    isGone: () => isGone,
    ended,
    ask,
    isHeard: async (withinMs) => (await calls.make((id) => ({ kind: 'ping', id }), withinMs)) !== undefined,
    reload: () => send({ kind: 'reload' }),
    drain: (times) => send({ kind: 'drain', ...times }),
    kill: () => worker.process.kill('SIGKILL'),
  }
}

function createCalls(send: (order: WorkerCommand) => void) {
  const waiting = new Map<number, (value: unknown) => void>()
  let lastId = 0
  return {
    make: (order: (id: number) => WorkerCommand, withinMs: number): Promise<unknown> =>
      new Promise((resolve) => {
        const id = ++lastId
        const settle = (value: unknown): void => {
          clearTimeout(timer)
          waiting.delete(id)
          resolve(value)
        }
        const timer = setTimeout(
          guarded('process', () => settle(undefined)),
          withinMs,
        )
        waiting.set(id, settle)
        send(order(id))
      }),
    settle: (id: number, value: unknown): void => waiting.get(id)?.(value),
    giveUp: (): void => {
      for (const settle of waiting.values()) settle(undefined)
    },
  }
}

/** Node never reports the close of a channel that still has data under way when its process ends. */
const channelCloseMs = 1_000

/** node:cluster closes the listeners of a process when its channel closes, which may be after its exit. */
async function waitForEnd(worker: Worker): Promise<Pick<WorkerEnd, 'code' | 'signal'>> {
  // The system refused to start a process; no event reports its end.
  if (worker.process.pid === undefined) return { code: null, signal: null }
  const disconnect = new Promise<void>((resolve) => {
    worker.once('disconnect', resolve)
  })
  const end = await new Promise<Pick<WorkerEnd, 'code' | 'signal'>>((resolve) => {
    worker.once('exit', (code: number | null, signal: string | null) => resolve({ code, signal }))
  })
  const timeout = new Promise<void>((resolve) => {
    setTimeout(resolve, channelCloseMs).unref()
  })
  await Promise.race([disconnect, timeout])
  return end
}
