// Tells its parent again and again how many descriptors a process has open, of which a thousand take a while to list.
import { countDescriptors } from '../support/process-figures.ts'

const everyMs = 200

const pid = Number(process.argv[2])
setInterval(() => process.send?.(countDescriptors(pid)), everyMs)
process.once('disconnect', () => process.exit())
