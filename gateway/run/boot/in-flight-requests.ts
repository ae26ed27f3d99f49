import { randomUUID } from 'node:crypto'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import { render } from '../../base/errors/render.ts'
import type { Exchange } from '../../http/exchange.ts'
import { describeBug, type Log } from '../../observe/log/log.ts'

export type InFlightRequests = Readonly<{
  count: () => number
  countJoined: () => number
  track: (work: (exchange: Exchange) => Promise<void>) => (exchange: Exchange) => void
  /** Resolves when no handler runs, or after `withinMs`: a handler may outlive its client. */
  untilIdle: (withinMs: number) => Promise<void>
}>

export function trackInFlight(log: Log): InFlightRequests {
  // A count, not a Set. A Set that grows keeps its old tables, and every exchange in them, until a full collection.
  // Each scavenge then copied five times as much.
  let inFlight = 0
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
    log.error({ requestId, error: describeBug(error) }, 'request failed outside the pipeline')
    failExchange(exchange, requestId)
  }
  const leave = (_: boolean, exchange: Exchange): void => {
    inFlight -= 1
    handshakes.delete(exchange)
  }
  const track: InFlightRequests['track'] = (work) => (exchange) => {
    inFlight += 1
    if (exchange.isHandshake) handshakes.add(exchange)
    exchange.onEnd(leave, exchange)
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

/** Half a response must not pass for a complete one; before its start the client gets an error. */
function failExchange(exchange: Exchange, requestId: string): void {
  if (!exchange.hasStarted) {
    try {
      const refusal = render(new GatewayError('internal'), 'platform', requestId)
      exchange.respond(refusal, refusal.body)
      return
    } catch {
      // The head could not be written, so only a broken connection is left.
    }
  }
  exchange.destroy()
}
