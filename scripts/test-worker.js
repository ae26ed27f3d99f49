// A process of the runner: it takes file after file, and gives each a test of its own. So Node loads and compiles each
// module once for many files.
import { register } from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { setFileTest } from './file-test.js'

register('./file-test.js', import.meta.url)
const { default: t } = await import('tap')

// A file may have left a handle that would keep the process.
process.on('disconnect', () => process.exit())
process.on('message', async ({ file, timeoutMs }) => {
  await t.test(file, { timeout: timeoutMs }, async (test) => {
    setFileTest(test)
    await import(pathToFileURL(resolve(file)).href)
  })
  process.send({ rss: process.memoryUsage.rss() })
  // With its first line tap lets a process end that is idle.
  process.channel.ref()
})
