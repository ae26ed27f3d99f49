// The listener on which issuers and transmitters tell of logouts and of other security events.
import { describeEventError, EventFault } from '../../base/errors/event-fault.ts'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { Exchange } from '../../http/exchange.ts'
import { readHeaders } from '../../stages/receive/headers.ts'
import { readRequestId } from '../../stages/receive/request-id.ts'
import { readTarget } from '../../stages/receive/target.ts'
import { type PushSecrets, readEventRequest, readLogoutRequest, requireSecret } from './requests.ts'

export type Sender = Readonly<{ clientAddress: string; requestId: string }>

/** Resolves to whether the message changed something: a replay is authentic, too. */
export type TakeLogout = (token: string, sender: Sender) => Promise<boolean>

export type TakeEvent = (transmitter: string, token: string, sender: Sender, id?: string) => Promise<boolean>

export type SignalReceivers = Readonly<{ takeLogout: TakeLogout; takeEvent: TakeEvent; secrets: PushSecrets }>

export type SignalReports = Readonly<{
  onRefused: (refusal: GatewayError, sender: Sender) => void
  /** A message was authentic and new, so its sender is an issuer, or a proxy in front of it. */
  onProven: (clientAddress: string) => void
  onEventRefused: (refusal: GatewayError | EventFault, transmitter: string | undefined, sender: Sender) => void
}>

/** Issuers send no cookies. Node and most servers take as much. */
const headerBytes = 16 * 1024

export const createSignals = (receivers: SignalReceivers, reports: SignalReports) => {
  const takePush = createTakePush(receivers, reports)
  return async (exchange: Exchange): Promise<void> => {
    const sender = { clientAddress: exchange.peerAddress, requestId: readRequestId(exchange.headers) }
    try {
      const headers = readHeaders(exchange, headerBytes)
      const { path } = readTarget(exchange.method, exchange.target, headers.host)
      const name = path.startsWith(pushPath) ? path.slice(pushPath.length) : undefined
      if (name === undefined && path !== '/backchannel-logout') throw new GatewayError('route_not_found')
      if (exchange.method !== 'POST') throw new GatewayError('method_not_allowed')
      if (name !== undefined) return await takePush(name, headers.authorization, exchange, sender)
      const isNew = await receivers.takeLogout(await readLogoutRequest(exchange), sender)
      if (isNew) reports.onProven(sender.clientAddress)
      answer(exchange, sender, 200, [], '')
    } catch (error) {
      const refusal = GatewayError.from(error)
      reports.onRefused(refusal, sender)
      refuseLogout(exchange, sender, refusal)
    }
  }
}

const pushPath = '/ssf/'

const createTakePush =
  ({ takeEvent, secrets }: SignalReceivers, { onProven, onEventRefused }: SignalReports) =>
  async (name: string, authorization: readonly string[], exchange: Exchange, sender: Sender): Promise<void> => {
    let transmitter: string | undefined
    try {
      requireSecret(secrets, name, authorization)
      transmitter = name
      if (await takeEvent(name, await readEventRequest(exchange), sender)) onProven(sender.clientAddress)
      answer(exchange, sender, 202, [], '')
    } catch (error) {
      const refusal = error instanceof EventFault ? error : GatewayError.from(error)
      onEventRefused(refusal, transmitter, sender)
      refuseEvent(exchange, sender, refusal)
    }
  }

function refuseLogout(exchange: Exchange, sender: Sender, refusal: GatewayError): void {
  const status = readStatus(refusal)
  refuse(exchange, sender, status, { error: status >= 500 ? 'temporarily_unavailable' : 'invalid_request' })
}

function refuseEvent(exchange: Exchange, sender: Sender, refusal: GatewayError | EventFault): void {
  const status = refusal instanceof EventFault ? 400 : readStatus(refusal)
  refuse(exchange, sender, status, status >= 500 ? {} : describeEventError(refusal))
}

/** OpenID Connect Back-Channel Logout 1.0, 2.8: a token that is not valid is 400, and says no more. */
const readStatus = ({ status, code }: GatewayError): number => (code === 'unauthenticated' ? 400 : status)

function refuse(exchange: Exchange, sender: Sender, status: number, told: object): void {
  if (exchange.hasStarted) {
    exchange.destroy()
    return
  }
  exchange.willRefuse(status)
  const more = status === 405 ? ['allow', 'POST'] : status === 503 ? ['retry-after', '1'] : []
  const headers = ['content-type', 'application/json', 'content-language', 'en', ...more]
  answer(exchange, sender, status, headers, `${JSON.stringify(told)}\n`)
}

function answer(
  exchange: Exchange,
  { requestId }: Sender,
  status: number,
  headers: readonly string[],
  body: string,
): void {
  exchange.respond({ status, headers: [...headers, 'cache-control', 'no-store', 'x-request-id', requestId] }, body)
}
