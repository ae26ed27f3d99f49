import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { type WatchdogDuty, wordOfRelease } from './watchdog-duty.ts'

export type Watchdog = Readonly<{ release: () => Promise<void> }>

export function startWatchdog(duty: WatchdogDuty): Watchdog {
  const isSource = import.meta.url.endsWith('.ts')
  const script = fileURLToPath(new URL(isSource ? './watchdog.ts' : './watchdog.js', import.meta.url))
  // Sources need the loader, but not other switches such as --inspect.
  const loaders = isSource ? process.execArgv.filter((arg) => /^--(import|loader|require|no-warnings)\b/.test(arg)) : []
  const child = spawn(process.execPath, [...loaders, script, JSON.stringify(duty)], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  const ended = once(child, 'exit').catch(() => undefined)
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
