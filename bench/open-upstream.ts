// The backend of bench:revocation's open exchanges, in a process of its own: an event stream for each request, and an event
// a second in each.
import { setTimeout as sleep } from 'node:timers/promises'
import { startCrowdUpstream } from '../test/support/crowd-upstream.ts'
import { deltaEvent } from '../test/support/event-streams.ts'
import { withOwner } from '../test/support/owner.ts'
import { toChunk } from '../test/support/streams.ts'

const slices = 50

await withOwner(async (owner) => {
  const { url, streams } = await startCrowdUpstream(owner)
  process.on('disconnect', () => process.exit())
  process.send?.(url)
  for (let number = 1; ; number++) {
    const event = toChunk(deltaEvent(number))
    const open = [...streams]
    for (let slice = 0; slice < slices; slice++) {
      for (let index = slice; index < open.length; index += slices) open[index]?.write(event)
      await sleep(1_000 / slices)
    }
  }
})
