// Run by the gateway before anything else (`node --import`): answers every message of its parent with what it holds
// once all garbage is gone.
import { getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

// Like `--expose-gc`, which NODE_OPTIONS does not take on every Node.
setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc')

process.on('message', () => {
  collectGarbage()
  // Finalizers, and what only they let go of.
  setImmediate(() => {
    collectGarbage()
    const { total_physical_size, used_heap_size } = getHeapStatistics()
    process.send({ memory: process.memoryUsage(), spareBytes: total_physical_size - used_heap_size })
  })
})
