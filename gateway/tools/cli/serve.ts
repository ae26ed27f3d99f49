import { spawnSync } from 'node:child_process'
import { leaveEarlySignals } from '../../base/fault/early-signals.ts'
import { endProcess, guardOutput } from '../../base/fault/end-process.ts'
import { guarded } from '../../base/fault/guarded.ts'
import { loadConfiguration } from '../../configuration/configuration.ts'
import { reportFailure } from '../../configuration/failure.ts'
import { countWorkers } from '../../configuration/process-limits.ts'
import { handleUncaught } from '../../run/boot/crash.ts'
import type { Gateway } from '../../run/boot/gateway.ts'
import { readAssignment } from '../../run/workers/messages.ts'

const terminalDrain = { delayMs: 0, timeoutMs: 2_000 }

/** Runs until a signal: SIGTERM drains, Ctrl-C drains for 2 s, a second signal ends at once. SIGHUP reloads. */
export async function runServe({ config: configFile }: Readonly<{ config: string }>): Promise<void> {
  const assignment = readAssignment(process.env)
  if (assignment) {
    const { runWorker } = await import('../../run/workers/worker.ts')
    leaveEarlySignals()
    return runWorker(configFile, assignment)
  }
  // A killed npx passes no signal on, and the shell that it may have started outlives it.
  const launcher = process.env.npm_command === 'exec' && process.send === undefined ? findLauncher() : undefined
  const gateway = await start(configFile)
  guardOutput(gateway.reportWarning)
  handleUncaught(gateway.reportFault, gateway.drain)
  let isStopping = false
  const stop = (options?: typeof terminalDrain): void => {
    if (isStopping) return void endProcess(1)
    isStopping = true
    gateway.drain(options).then(
      () => endProcess(0),
      () => endProcess(1),
    )
  }
  process.on(
    'SIGTERM',
    guarded('process', () => stop()),
  )
  process.on(
    'SIGINT',
    guarded('process', () => stop(terminalDrain)),
  )
  process.on(
    'SIGHUP',
    guarded('process', () => gateway.reload()),
  )
  if (leaveEarlySignals().isReloadAsked) void gateway.reload()
  // The demo starts this process: it needs the addresses, and its end must end the gateway.
  process.on(
    'disconnect',
    guarded('process', () => stop({ delayMs: 0, timeoutMs: 0 })),
  )
  if (launcher) watchLauncher(launcher, () => process.kill(process.pid, 'SIGTERM'))
  const { public: clients, decision, admin, signals } = gateway
  process.send?.({ public: clients, decision, admin, signals })
}

async function start(configFile: string): Promise<Gateway> {
  const configuration = loadConfiguration(configFile, process.env)
  const workers = countWorkers(configuration)
  if (workers === 1) return (await import('../../run/boot/gateway.ts')).startGateway(configuration)
  const { startGroup } = await import('../../run/workers/group.ts')
  return startGroup(configuration, workers, (error) => void reportFailure(error))
}

type Launcher = Readonly<{ parent: number; npx: number }>

/** Finds npx, which may have started a shell between; to be asked first, since a later parent may be another one. */
function findLauncher(): Launcher {
  const parent = process.ppid
  const { stdout } = spawnSync('ps', ['-o', 'ppid=,comm=', '-p', String(parent)], { encoding: 'utf8' })
  const [, above, name = ''] = /^\s*(\d+)\s+(.*?)\s*$/m.exec(stdout ?? '') ?? []
  return { parent, npx: /(?:^|\/)-?(?:ba|da|k|z)?sh$/.test(name) ? Number(above) : parent }
}

/** No signal tells of an ancestor's end. The ports are free again about a second after it. */
const npxPollMs = 1_000

function watchLauncher({ parent, npx }: Launcher, onEnd: () => void): void {
  const look = (): void => {
    if (process.ppid === parent && isRunning(npx)) return
    clearInterval(timer)
    onEnd()
  }
  const timer = setInterval(guarded('timer', look), npxPollMs).unref()
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    const belongsToAnotherUser = (error as NodeJS.ErrnoException).code === 'EPERM'
    return belongsToAnotherUser
  }
}
