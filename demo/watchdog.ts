// A pipe on standard input that closes without the release word means that the owner crashed. Then the watchdog removes
// its database server, directory and files. watchdog-process.ts starts it.
import { rm } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { findInhabitants, findPostmaster } from './postgres-lock.ts'
import { parseDuty, wordOfRelease } from './watchdog-duty.ts'

const pollMs = 50
const quitAfterMs = 3000
const killAfterMs = 5000
const giveUpAfterMs = 7000

// A signal to the whole group must not end the watchdog before it has cleaned up.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)

const duty = parseDuty(process.argv[2])
if ((await readToEnd()) !== wordOfRelease) await cleanUp()

async function readToEnd(): Promise<string> {
  let text = ''
  try {
    for await (const chunk of process.stdin) text += String(chunk)
  } catch {
    return ''
  }
  return text
}

async function cleanUp(): Promise<void> {
  for (const file of duty.files) await rm(file, { force: true })
  await emptyDirectory()
  await rm(duty.directory, { recursive: true, force: true, maxRetries: 20, retryDelay: pollMs })
}

// Waits also for processes without a lock file: initdb, and a server that is starting. If their directory vanished they
// would abort and leave shared memory behind.
async function emptyDirectory(): Promise<void> {
  let sent = ''
  for (let waitedMs = 0; waitedMs < giveUpAfterMs; waitedMs += pollMs) {
    const pid = await findPostmaster(duty.data)
    if (pid === undefined && (await findInhabitants(duty.directory)).length === 0) return
    const signal = waitedMs < quitAfterMs ? 'SIGINT' : waitedMs < killAfterMs ? 'SIGQUIT' : 'SIGKILL'
    if (pid !== undefined && sent !== `${signal} ${pid}`) {
      sent = `${signal} ${pid}`
      sendSignal(pid, signal)
    }
    await delay(pollMs)
  }
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (cause) {
    if (!(cause instanceof Error && 'code' in cause && cause.code === 'ESRCH')) throw cause // It just ended.
  }
}
