import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { type WatchdogDuty, wordOfRelease } from './watchdog-duty.ts'

/** The owner's end of a running watchdog. */
export type Watchdog = Readonly<{ release: () => Promise<void> }>

/** Starts a process that does the duty if this one ends, however it ends, before it called `release`. */
export function startWatchdog(duty: WatchdogDuty): Watchdog {
  const isSource = import.meta.url.endsWith('.ts')
  const script = fileURLToPath(new URL(isSource ? './watchdog.ts' : './watchdog.js', import.meta.url))
  // From the sources the loader must come along; our other switches (--inspect, --watch) are not for it.
  const loaders = isSource ? process.execArgv.filter((arg) => /^--(import|loader|require|no-warnings)\b/.test(arg)) : []
  const child = spawn(process.execPath, [...loaders, script, JSON.stringify(duty)], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  const ended = once(child, 'exit').catch(() => undefined) // It could not start: nothing to wait for.
  // Somebody killed it: the demo runs on without.
  child.stdin.on('error', () => undefined)
  child.unref()
  return {
    release: async () => {
      child.ref()
      child.stdin.end(wordOfRelease)
      await ended
    },
  }
}
