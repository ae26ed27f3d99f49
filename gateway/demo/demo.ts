import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { printBanner } from './banner.ts'
import { startWorld } from './world.ts'

/** Where the contract expects the listeners. */
const ports = { public: 8080, decision: 8081, admin: 9090 }

/** What Ctrl-C, `kill` and a closed terminal send. */
const stopSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Runs the demo world until it is told to stop, or until its gateway ends. */
export async function runDemo(): Promise<void> {
  const directory = resolve('.sallyport')
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  removeDemoFile(directory)
  const startedMs = performance.now()
  let isStopping = false
  let stop: () => Promise<number> = async () => process.exit(1)
  const end = (): void => {
    // A second Ctrl-C means it: what is left falls to the watchdog.
    if (isStopping) process.exit(1)
    isStopping = true
    void stop().then((code) => process.exit(code))
  }
  for (const signal of stopSignals) process.on(signal, end)

  const world = await startWorld({ directory, ports, notify })
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

const demoFile = 'demo.json'

/** Writes `.sallyport/demo.json` whole: whoever waits for it never reads half of one. */
function writeDemoFile(directory: string, description: unknown): string {
  const file = join(directory, demoFile)
  const draft = `${file}.${process.pid}`
  writeFileSync(draft, `${JSON.stringify(description, null, 2)}\n`, { mode: 0o600 })
  renameSync(draft, file)
  return file
}

/** The file stands only while the world does. */
const removeDemoFile = (directory: string): void => rmSync(join(directory, demoFile), { force: true })
