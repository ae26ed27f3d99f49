// Loaded into a gateway by `node --import`. The first message of its parent starts a processor profile. The second one
// stops it, and the profile is the reply.
import { Session } from 'node:inspector/promises'

const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.setSamplingInterval', { interval: 200 })
let isOn = false

process.on('message', async () => {
  isOn = !isOn
  if (!isOn) {
    const { profile } = await session.post('Profiler.stop')
    process.send(profile)
    return
  }
  await session.post('Profiler.start')
  process.send('started')
})
