// Run by the gateway before anything else (`node --import`): begins a processor profile at its parent's first message, and
// answers the second one with it.
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
