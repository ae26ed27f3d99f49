// A process of the runner: it takes file after file, and gives each a test of its own. So Node loads and compiles each
// module once for many files.
import { subscribe } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import { register } from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { setFileTest } from './file-test.js'

register('./file-test.js', import.meta.url)
// Each gateway listens for the end of its process, and a file may start dozens.
process.setMaxListeners(0)
const { default: t } = await import('tap')

/** Seconds of processor time, of this process and, where the system tells, of its ended children. */
function readProcessorSeconds() {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6 + readChildrensSeconds()
}

function readChildrensSeconds() {
  try {
    const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ')
    return (Number(fields[13]) + Number(fields[14])) / 100
  } catch {
    return 0
  }
}

let processorSeconds = readProcessorSeconds()

/** A process that is `sallyport`, or one that keeps its modules for many commands. */
const isStart = (word) => /(?:^|\/)(?:dist\/gateway\/main|support\/command-host)\.js$/.test(word)

let starts = 0
subscribe('child_process', ({ process: child }) =>
  // Node tells before the words are known.
  queueMicrotask(() => {
    if (child.spawnargs?.some(isStart)) starts += 1
  }),
)

// A file may have left a handle that would keep the process.
process.on('disconnect', () => process.exit())
process.on('message', async ({ file, timeoutMs }) => {
  await t.test(file, { timeout: timeoutMs }, async (test) => {
    setFileTest(test)
    await import(pathToFileURL(resolve(file)).href)
  })
  const total = readProcessorSeconds()
  process.send({ rss: process.memoryUsage.rss(), processorSeconds: total - processorSeconds, starts })
  processorSeconds = total
  starts = 0
  // With its first line tap lets a process end that is idle.
  process.channel.ref()
})
