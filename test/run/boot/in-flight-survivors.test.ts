// In a process of its own: it measures garbage.
import t from 'tap'
import type { Exchange } from '../../../gateway/http/exchange.ts'
import type { Log } from '../../../gateway/observe/log/log.ts'
import { trackInFlight } from '../../../gateway/run/boot/in-flight-requests.ts'
import { measureSurvivors } from './survivors.ts'

t.test('exchanges that have ended do not outlive a scavenge', async (t) => {
  // No handler throws here, so the log is never called.
  const exchanges = trackInFlight({} as Log)
  const handle = exchanges.track(async () => {})
  const survivors = await measureSurvivors((member) => {
    let end = (): void => {}
    const exchange = {
      member,
      isHandshake: false,
      onEnd: (listener: (isComplete: boolean, target: unknown) => void, target: unknown) => {
        end = () => listener(true, target)
      },
    }
    // No more of an exchange is used on its way in and out.
    handle(exchange as Partial<Exchange> as Exchange)
    return end
  })
  t.ok(survivors < 1, `${survivors} MiB`)
  t.equal(exchanges.count(), 64)
})
