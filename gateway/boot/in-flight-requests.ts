import { randomUUID } from 'node:crypto'
import { GatewayError } from '../errors/gateway-error.ts'
import { render } from '../errors/render.ts'
import type { Exchange } from '../http/exchange.ts'
import { describeBug, type Log } from '../observe/log/log.ts'

/** The exchanges under way at every door, and the handlers that still work for them. */
export type InFlightRequests = Readonly<{
  count: () => number
  /** Those that have become a WebSocket. */
  countJoined: () => number
  /** Makes a handler of work; what it lets through ends that one exchange, and nothing else. */
  track: (work: (exchange: Exchange) => Promise<void>) => (exchange: Exchange) => void
  /** Resolves when no handler works any more, or after so long: a client may be gone before its request is decided. */
  untilIdle: (withinMs: number) => Promise<void>
}>

export function trackInFlight(log: Log): InFlightRequests {
  // No set of them all: of each of its tables that a set outgrows, one that has grown old keeps the next, and with it every
  // exchange that was in it, until a full collection. Each scavenge then copied five times as much.
  let inFlight = 0
  /** What may become a WebSocket is rare. */
  const handshakes = new Set<Exchange>()
  let working = 0
  let onIdle: (() => void) | undefined
  const finish = (): void => {
    working -= 1
    if (working === 0) onIdle?.()
  }
  const fail = (error: unknown, exchange: Exchange): void => {
    finish()
    const requestId = randomUUID()
    log.error({ requestId, error: describeBug(error) }, 'a request failed outside of its pipeline')
    failExchange(exchange, requestId)
  }
  const track: InFlightRequests['track'] = (work) => (exchange) => {
    inFlight += 1
    if (exchange.isHandshake) handshakes.add(exchange)
    exchange.onEnd(() => {
      inFlight -= 1
      handshakes.delete(exchange)
    })
    working += 1
    work(exchange).then(finish, (error: unknown) => fail(error, exchange))
  }
  const untilIdle = (withinMs: number): Promise<void> =>
    new Promise<void>((resolve) => {
      if (working === 0) {
        resolve()
        return
      }
      const timer = setTimeout(resolve, withinMs)
      onIdle = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  const countJoined = (): number => [...handshakes].filter(({ status }) => status === 101).length
  return { count: () => inFlight, countJoined, track, untilIdle }
}

/** What has begun must not pass for complete; what has not can still be told. */
function failExchange(exchange: Exchange, requestId: string): void {
  if (!exchange.hasStarted) {
    try {
      const refusal = render(new GatewayError('internal'), 'platform', requestId)
      exchange.respond(refusal, refusal.body)
      return
    } catch {
      // The fault is in the answering itself.
    }
  }
  exchange.destroy()
}
