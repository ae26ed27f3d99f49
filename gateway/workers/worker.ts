import cluster from 'node:cluster'
import { endOnFault } from '../boot/crash.ts'
import { type Doors, logCloseMs, openDoors } from '../boot/gateway.ts'
import { createProcessContext, type ProcessContext, reportFaultTo, reportWarningTo } from '../boot/process-context.ts'
import { loadConfiguration } from '../configuration/configuration.ts'
import { describeFailure } from '../configuration/failure.ts'
import { endProcess, guardOutput } from '../fault/end-process.ts'
import { guarded } from '../fault/guarded.ts'
import type { Assignment, DrainTimes, Order, Report } from './messages.ts'

/** Runs one worker until its primary ends it, or is gone: node:cluster then ends the process by itself. */
export async function runWorker(configurationFile: string, assignment: Assignment): Promise<void> {
  // Ctrl-C and service managers signal the whole group; when to stop or to reload, and how, is for the primary to say.
  process.on('SIGINT', () => undefined)
  process.on('SIGTERM', () => undefined)
  process.on('SIGHUP', () => undefined)
  // The channel to the primary breaks where the primary was killed.
  cluster.worker?.on(
    'error',
    guarded('process', () => endProcess(1)),
  )
  cluster.worker?.on(
    'disconnect',
    guarded('process', () => {
      // Else node:cluster calls process.exit, which waits for every thread.
      if (cluster.worker) cluster.worker.exitedAfterDisconnect = true
      return endProcess(0)
    }),
  )
  let running: Running | undefined
  let isLeaving = false
  const take = (order: Order): unknown => {
    if (running) return obey(order, running, isLeaving)
    // There is nothing to finish before the doors are open.
    return order.kind === 'drain' ? endProcess(0) : undefined
  }
  process.on('message', guarded('process', take))
  try {
    running = await start(configurationFile, assignment)
  } catch (error) {
    await report({ kind: 'failed', failure: describeFailure(error) })
    return endProcess(1)
  }
  const { doors, equipment } = running
  guardOutput(reportWarningTo(equipment.log))
  endOnFault(reportFaultTo(equipment.log), async (times) => {
    // One that leaves takes no connection, and is no reason to send none to its siblings.
    isLeaving = true
    await stop({ delayMs: 0, timeoutMs: 0, ...times }, doors, equipment)
  })
  await report({ kind: 'serving', addresses: { public: doors.public, decision: doors.decision } })
}

type Running = Readonly<{ doors: Doors; equipment: ProcessContext }>

async function start(configurationFile: string, { number, listeners }: Assignment): Promise<Running> {
  const written = loadConfiguration(configurationFile, process.env)
  // The file may have changed since the siblings read it; all must stand at the same doors.
  const configuration = {
    ...written,
    listeners: {
      ...written.listeners,
      public: { ...written.listeners.public, ...listeners.public },
      decision: { ...written.listeners.decision, ...listeners.decision },
    },
  }
  const equipment = createProcessContext(configuration, number)
  return { doors: await openDoors(configuration, configurationFile, equipment), equipment }
}

async function obey(order: Order, { doors, equipment }: Running, isLeaving: boolean): Promise<void> {
  switch (order.kind) {
    case 'ping':
      return report({ kind: 'answer', id: order.id, value: 'alive' })
    case 'ask': {
      const isQuiet = isLeaving && order.question === 'readiness'
      const value = isQuiet ? {} : await doors.facts[order.question]().catch(() => undefined)
      return report({ kind: 'answer', id: order.id, value })
    }
    case 'reload':
      return doors.reload()
    case 'drain': {
      const code = await stop(order, doors, equipment)
      return endProcess(code)
    }
    default:
      return order satisfies never
  }
}

async function stop(times: DrainTimes, doors: Doors, { log, engine }: ProcessContext): Promise<number> {
  try {
    await doors.drain(times)
    await engine.close()
    log.info({}, 'stopped')
    return 0
  } catch {
    return 1
  } finally {
    await log.close(logCloseMs)
  }
}

/** Resolves once it is on its way. A primary that has gone hears nothing, and our end is near. */
const report = (message: Report): Promise<void> =>
  new Promise((resolve) => {
    if (process.send) process.send(message, undefined, undefined, () => resolve())
    else resolve()
  })
