// A process that reports to its parent, every 200 ms, how many descriptors another process has open. The count is not made
// in the bench itself, because listing thousands of descriptors takes long enough to disturb what the bench measures.
import { countDescriptors } from '../test/support/process-figures.ts'

const everyMs = 200

const pid = Number(process.argv[2])
setInterval(() => process.send?.(countDescriptors(pid)), everyMs)
process.once('disconnect', () => process.exit())
