// Outlives its owner by a moment: when the pipe on standard input closes without a word, the owner has crashed,
// and what it left (a database server, its directory, files) is removed. Started by watchdog-process.ts.
import { rm } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { findPostmaster, isServing } from './postgres-lock.ts'
import { parseDuty, wordOfRelease } from './watchdog-duty.ts'

const pollMs = 50
const patience = [
  { signal: 'SIGINT', timeoutMs: 3000 },
  { signal: 'SIGQUIT', timeoutMs: 2000 },
  { signal: 'SIGKILL', timeoutMs: 2000 },
] as const

// A service manager that signals the whole group must not take the cleaner away before the mess.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)

const duty = parseDuty(process.argv[2])
if ((await readToEnd()) !== wordOfRelease) await cleanUp()

async function readToEnd(): Promise<string> {
  let text = ''
  try {
    for await (const chunk of process.stdin) text += String(chunk)
  } catch {
    // A reset is what the end of a killed owner may look like; either way it said no word of release.
    return ''
  }
  return text
}

async function cleanUp(): Promise<void> {
  for (const file of duty.files) await rm(file, { force: true })
  // Twice, with a pause: a server in its first moments has no lock file yet, and dies of the missing directory.
  for (let round = 0; round < 2; round += 1) {
    const pid = await findPostmaster(duty.data)
    if (pid !== undefined) await stopServer(pid)
    await rm(duty.directory, { recursive: true, force: true, maxRetries: 20, retryDelay: pollMs })
    await delay(pollMs * 4)
  }
}

async function stopServer(pid: number): Promise<void> {
  for (const { signal, timeoutMs } of patience) {
    if (!(await isServing(pid, duty.data))) return
    process.kill(pid, signal)
    for (let waitedMs = 0; waitedMs < timeoutMs; waitedMs += pollMs) {
      await delay(pollMs)
      if (!(await isServing(pid, duty.data))) return
    }
  }
}
