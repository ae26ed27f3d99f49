// `npm start`: installs what is missing, builds, and runs the demo world in this very process.
import { build } from './build.js'
import { install } from './install.js'

install()
build()

// Started by npm, the demo ends when npm does, even when npm is killed and cannot pass the signal on.
const parent = process.ppid
if (process.env.npm_lifecycle_event === 'start' && parent > 1)
  setInterval(() => {
    if (process.ppid !== parent) process.kill(process.pid, 'SIGTERM')
  }, 1_000).unref()

process.argv.splice(1, process.argv.length - 1, new URL('../dist/gateway/main.js', import.meta.url).pathname, 'demo')
await import('../dist/gateway/main.js')
