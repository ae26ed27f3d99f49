import { GatewayError } from '../errors/gateway-error.ts'
import type { Exchange } from '../http/exchange.ts'
import { readHeaders } from '../receive/headers.ts'
import { readRequestId } from '../receive/request-id.ts'
import { readTarget } from '../receive/target.ts'

export type Sender = Readonly<{ clientAddress: string; requestId: string }>

export type TakeLogout = (token: string, sender: Sender) => Promise<void>

export type SignalReports = Readonly<{ onRefused: (refusal: GatewayError, sender: Sender) => void }>

const headerBytes = 16 * 1024

export const createSignals =
  (takeLogout: TakeLogout, { onRefused }: SignalReports) =>
  async (exchange: Exchange): Promise<void> => {
    const sender = { clientAddress: exchange.peerAddress, requestId: readRequestId(exchange.headers) }
    try {
      const headers = readHeaders(exchange, headerBytes)
      const { path } = readTarget(exchange.method, exchange.target, headers.host)
      if (path !== '/backchannel-logout') throw new GatewayError('route_not_found')
      if (exchange.method !== 'POST') throw new GatewayError('method_not_allowed')
      await takeLogout(await readLogoutRequest(exchange), sender)
      answer(exchange, sender, 200, [], '')
    } catch (error) {
      const refusal = GatewayError.from(error)
      onRefused(refusal, sender)
      refuse(exchange, sender, refusal)
    }
  }

const bodyLimitBytes = 16 * 1024

export async function readLogoutRequest({ headers, body }: Pick<Exchange, 'headers' | 'body'>): Promise<string> {
  const types = headers.filter((_, index) => index % 2 === 1 && headers[index - 1]?.toLowerCase() === 'content-type')
  if (types.length !== 1 || !isForm(types[0] ?? '')) throw new GatewayError('malformed')
  const form = (await body.read(bodyLimitBytes)).toString('latin1')
  const [token, ...others] = new URLSearchParams(form).getAll('logout_token')
  if (token === undefined || others.length > 0) throw new GatewayError('malformed')
  return token
}

const isForm = (type: string): boolean =>
  type.split(';', 1)[0]?.trim().toLowerCase() === 'application/x-www-form-urlencoded'

function refuse(exchange: Exchange, sender: Sender, { status, code }: GatewayError): void {
  if (exchange.hasStarted) {
    exchange.destroy()
    return
  }
  // OpenID Connect Back-Channel Logout 1.0, 2.8: a token that is not valid is 400, and says no more.
  const told = code === 'unauthenticated' ? 400 : status
  exchange.willRefuse(told)
  const type = told >= 500 ? 'temporarily_unavailable' : 'invalid_request'
  const more = told === 405 ? ['allow', 'POST'] : told === 503 ? ['retry-after', '1'] : []
  answer(exchange, sender, told, ['content-type', 'application/json', ...more], `${JSON.stringify({ error: type })}\n`)
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
