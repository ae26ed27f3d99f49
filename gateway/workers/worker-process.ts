import cluster, { type Worker } from 'node:cluster'
import type { HistoryQuery } from '../admin/history/history.ts'
import type { Failure } from '../configuration/failure.ts'
import { guarded } from '../fault/guarded.ts'
import {
  type Assignment,
  type DrainTimes,
  type ListenerAddresses,
  type WorkerAnswer,
  type WorkerCommand,
  type WorkerMessage,
  type WorkerQuestion,
  writeAssignment,
} from './messages.ts'

/** How a worker came to its end. */
export type WorkerEnd = Readonly<{
  code: number | null
  signal: string | null
  /** Why it could not start, where it told so itself. */
  failure: Failure | undefined
}>

/** A worker as its primary sees it. */
export type WorkerProcess = Readonly<{
  number: number
  pid: number
  /** Where it serves; never resolves when it ends before. */
  served: Promise<ListenerAddresses>
  /** Whether its process has ended: it takes no connection, and answers no question. */
  isGone: () => boolean
  /** Resolves when the process is gone and has let go of its listeners. */
  ended: Promise<WorkerEnd>
  /** Rejects when there is no answer in time, or none to give. */
  ask: <Name extends WorkerQuestion>(
    question: Name,
    withinMs: number,
    query?: HistoryQuery,
  ) => Promise<WorkerAnswer<Name>>
  /** Whether its event loop turns. */
  isHeard: (withinMs: number) => Promise<boolean>
  reload: () => void
  drain: (times: DrainTimes) => void
  kill: () => void
}>

/** Starts one worker: this very program with the same arguments, and an assignment. */
export function forkWorker(assignment: Assignment): WorkerProcess {
  const worker = cluster.fork(writeAssignment(assignment))
  // A worker that has just gone cannot be told anything; its end is told by its exit.
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
    query?: HistoryQuery,
  ) => {
    const value = await calls.make((id) => ({ kind: 'ask', id, question, query }), withinMs)
    if (value === undefined) throw new Error(`worker ${assignment.number} did not tell its ${question}`)
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

/** Orders that want a reply, which comes under their id. */
function createCalls(send: (order: WorkerCommand) => void) {
  const waiting = new Map<number, (value: unknown) => void>()
  let lastId = 0
  return {
    /** Resolves to undefined when the reply stays out. */
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

/** A channel closes with its process, but for what is still under way on it: then node never says that it closed. */
const channelCloseMs = 1_000

/** node:cluster takes the listeners of a process away when its channel closes, which may be after its exit. */
async function waitForEnd(worker: Worker): Promise<Pick<WorkerEnd, 'code' | 'signal'>> {
  // The system may refuse another process; no event then tells of an end.
  if (worker.process.pid === undefined) return { code: null, signal: null }
  const disconnect = new Promise<void>((resolve) => {
    worker.once('disconnect', resolve)
  })
  const end = await new Promise<Pick<WorkerEnd, 'code' | 'signal'>>((resolve) => {
    worker.once('exit', (code: number | null, signal: string | null) => resolve({ code, signal }))
  })
  const patience = new Promise<void>((resolve) => {
    setTimeout(resolve, channelCloseMs).unref()
  })
  await Promise.race([disconnect, patience])
  return end
}
