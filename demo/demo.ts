// The demo on one machine. The package leaves this folder out.
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { printBanner } from './banner.ts'
import { startWorld } from './world.ts'

const ports = { public: 8080, decision: 8081, admin: 9090 }

const stopSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

export async function runDemo(): Promise<void> {
  const directory = resolve('.sallyport')
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  removeDemoFile(directory)
  const startedMs = performance.now()
  let isStopping = false
  let stop: () => Promise<number> = async () => process.exit(1)
  const end = (): void => {
    if (isStopping) process.exit(1)
    isStopping = true
    void stop().then((code) => process.exit(code))
  }
  for (const signal of stopSignals) process.on(signal, end)

  const steps = tellSteps(notify)
  const world = await startWorld({ directory, ports, notify, onStep: steps.begin }).finally(steps.end)
  stop = async () => {
    removeDemoFile(directory)
    return world.stop()
  }
  void world.ended.then(() => isStopping || end())
  if (isStopping) {
    process.exit(await stop())
  }
  const file = writeDemoFile(directory, world.description)
  printBanner(world, ports, file, performance.now() - startedMs)
}

const notify = (sentence: string): void => {
  process.stderr.write(`${sentence}\n`)
}

export function tellSteps(tell: (sentence: string) => void, everyMs = 3_000) {
  let timer: NodeJS.Timeout | undefined
  const end = (): void => clearInterval(timer)
  const begin = (step: string): void => {
    end()
    tell(step)
    const startedMs = performance.now()
    timer = setInterval(() => tell(`${step} ${Math.round((performance.now() - startedMs) / 1_000)} s`), everyMs)
  }
  return { begin, end }
}

const demoFile = 'demo.json'

function writeDemoFile(directory: string, description: unknown): string {
  const file = join(directory, demoFile)
  const draft = `${file}.${process.pid}`
  writeFileSync(draft, `${JSON.stringify(description, null, 2)}\n`, { mode: 0o600 })
  renameSync(draft, file)
  return file
}

const removeDemoFile = (directory: string): void => rmSync(join(directory, demoFile), { force: true })
