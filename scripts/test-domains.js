// Stands in for `async-hook-domain`, by which tap finds the test that a stray error belongs to. That package keeps a map of
// each promise until it is collected: a promise costs thirty times as much, those of a gateway in the process among them.
import { AsyncLocalStorage, executionAsyncResource } from 'node:async_hooks'

const running = new AsyncLocalStorage()

export class Domain {
  constructor(onerror) {
    this.onerror = onerror
    this.parent = running.getStore()
    // tap calls this within the scope of the test's resource, and runs the test there later.
    const resource = executionAsyncResource()
    const enter = resource.runInAsyncScope
    if (enter === undefined) running.enterWith(this)
    else
      resource.runInAsyncScope = (work, self, ...words) =>
        enter.call(resource, () => running.run(this, () => work.apply(self, words)))
  }

  destroy() {
    this.isOver = true
  }
}

/** An error that comes after the end of its test belongs to the test around it. */
function findRunning() {
  let domain = running.getStore()
  while (domain?.isOver) domain = domain.parent
  return domain
}

process.on('uncaughtExceptionMonitor', (error, origin) => {
  if (process.listenerCount('uncaughtException') > 0 || process.hasUncaughtExceptionCaptureCallback()) return
  const domain = findRunning()
  if (domain === undefined) return
  domain.onerror(error, origin)
  // The process goes on to the next test.
  process.setUncaughtExceptionCaptureCallback(() => process.setUncaughtExceptionCaptureCallback(null))
})
