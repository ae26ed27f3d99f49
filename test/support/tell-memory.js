// Run by the gateway before anything else (`node --import`): answers every message of its parent with what it holds
// once all garbage is gone. One that begins with `count ` has a text in hexadecimal digits, and gets the number of strings
// that hold this text.
import { getHeapSnapshot, getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

// Like `--expose-gc`, which NODE_OPTIONS does not take on every Node.
setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc')

process.on('message', (question) => {
  collectGarbage()
  // Finalizers, and what only they let go of.
  setImmediate(() => {
    collectGarbage()
    const [, digits] = /^count ([0-9a-f]+)$/.exec(question) ?? []
    if (digits) {
      void countText(Buffer.from(digits, 'hex')).then((count) => process.send(count))
      return
    }
    const { total_physical_size, used_heap_size } = getHeapStatistics()
    process.send({ memory: process.memoryUsage(), spareBytes: total_physical_size - used_heap_size })
  })
})

/** The first kilobyte of each string is searched. No string of its own holds the wanted text. */
async function countText(wanted) {
  let count = 0
  let rest = Buffer.alloc(0)
  for await (const chunk of getHeapSnapshot()) {
    const bytes = Buffer.concat([rest, Buffer.from(chunk)])
    for (let at = bytes.indexOf(wanted); at >= 0; at = bytes.indexOf(wanted, at + wanted.length)) count += 1
    rest = bytes.subarray(Math.max(0, bytes.length - wanted.length + 1))
  }
  return count
}
