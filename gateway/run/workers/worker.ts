import cluster from 'node:cluster'
import { endProcess, guardOutput } from '../../base/fault/end-process.ts'
import { guarded } from '../../base/fault/guarded.ts'
import { loadConfiguration } from '../../configuration/configuration.ts'
import { describeFailure } from '../../configuration/failure.ts'
import { handleUncaught } from '../boot/crash.ts'
import { type RequestListeners, startListeners } from '../boot/gateway.ts'
import {
  createProcessContext,
  logCloseMs,
  type ProcessContext,
  reportFaultTo,
  reportWarningTo,
} from '../boot/process-context.ts'
import type { Assignment, DrainTimes, WorkerCommand, WorkerMessage, WorkerQuery } from './messages.ts'

/** Runs one worker until its primary ends it. When the primary dies, node:cluster ends the process. */
export async function runWorker(configurationFile: string, assignment: Assignment): Promise<void> {
  // Ctrl-C and service managers signal the whole group; the primary decides when a worker stops or reloads.
  process.on('SIGINT', () => undefined)
  process.on('SIGTERM', () => undefined)
  process.on('SIGHUP', () => undefined)
  cluster.worker?.on(
    'error',
    guarded('process', () => endProcess(1)),
  )
  cluster.worker?.on(
    'disconnect',
    guarded('process', () => {
      // Otherwise node:cluster calls process.exit, which waits for every thread.
      if (cluster.worker) cluster.worker.exitedAfterDisconnect = true
      return endProcess(0)
    }),
  )
  let running: Running | undefined
  let isLeaving = false
  const take = (order: WorkerCommand): unknown => {
    if (running) return execute(order, running, isLeaving)
    return order.kind === 'drain' ? endProcess(0) : undefined
  }
  process.on('message', guarded('process', take))
  try {
    running = await start(configurationFile, assignment)
  } catch (error) {
    await report({ kind: 'failed', failure: describeFailure(error) })
    return endProcess(1)
  }
  const { listeners, context } = running
  guardOutput(reportWarningTo(context.log))
  handleUncaught(reportFaultTo(context.log), async (times) => {
    // A worker that drains takes no connections, and must not make its siblings unready.
    isLeaving = true
    await stop({ delayMs: 0, timeoutMs: 0, ...times }, listeners, context)
  })
  const { public: clients, decision, signals } = listeners
  await report({ kind: 'serving', addresses: { public: clients, decision, ...(signals && { signals }) } })
}

type Running = Readonly<{ listeners: RequestListeners; context: ProcessContext }>

async function start(configurationFile: string, { number, listeners }: Assignment): Promise<Running> {
  const written = loadConfiguration(configurationFile, process.env)
  // The file may have changed since the siblings read it; all must listen on the same addresses.
  const configuration = {
    ...written,
    listeners: {
      ...written.listeners,
      public: { ...written.listeners.public, ...listeners.public },
      decision: { ...written.listeners.decision, ...listeners.decision },
      ...(listeners.signals && { signals: { ...written.listeners.signals, ...listeners.signals } }),
    },
  }
  const context = createProcessContext(configuration, number)
  return { listeners: await startListeners(configuration, context), context }
}

async function execute(command: WorkerCommand, { listeners, context }: Running, isLeaving: boolean): Promise<void> {
  switch (command.kind) {
    case 'ping':
      return report({ kind: 'answer', id: command.id, value: 'alive' })
    case 'ask': {
      const isQuiet = isLeaving && command.question === 'readiness'
      const value = isQuiet ? {} : await answer(command, listeners.facts).catch(() => undefined)
      return report({ kind: 'answer', id: command.id, value })
    }
    case 'reload':
      return listeners.reload()
    case 'drain': {
      const code = await stop(command, listeners, context)
      return endProcess(code)
    }
    default:
      return command satisfies never
  }
}

type Question = Extract<WorkerCommand, Readonly<{ kind: 'ask' }>>

async function answer({ question, query }: Question, facts: RequestListeners['facts']): Promise<unknown> {
  // The primary sends each question with the query of the same function.
  return (facts[question] as (query: WorkerQuery) => Promise<unknown>)(query)
}

async function stop(times: DrainTimes, listeners: RequestListeners, { log, engine }: ProcessContext): Promise<number> {
  try {
    await listeners.drain(times)
    await engine.close()
    log.info({}, 'stopped')
    return 0
  } catch {
    return 1
  } finally {
    await log.close(logCloseMs)
  }
}

const report = (message: WorkerMessage): Promise<void> =>
  new Promise((resolve) => {
    if (process.send) process.send(message, undefined, undefined, () => resolve())
    else resolve()
  })
