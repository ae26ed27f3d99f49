import { createHash, timingSafeEqual } from 'node:crypto'
import { EventFault } from '../../base/errors/event-fault.ts'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { Exchange } from '../../http/exchange.ts'
import { requirePlainBody } from '../../stages/receive/headers.ts'

export type PushSecrets = ReadonlyMap<string, readonly Buffer[]>

/** Twice the longest token, which a form may escape. */
const bodyLimitBytes = 16 * 1024

const noSecrets: readonly Buffer[] = [Buffer.alloc(32)]

/**
 * Throws unless the transmitter sent one of its secrets. An unknown name is answered as a wrong secret is, and takes as
 * long. Hashes are compared, because their length says nothing.
 */
export function requireSecret(secrets: PushSecrets, name: string, authorization: readonly string[]): void {
  const [text = '', ...others] = authorization
  const [, sent = ''] = /^bearer +([A-Za-z0-9._~+/=-]{1,512})$/i.exec(text) ?? []
  const hash = createHash('sha256').update(sent).digest()
  const equal = (secrets.get(name) ?? noSecrets).filter((secret) => timingSafeEqual(secret, hash))
  if (equal.length === 0 || others.length > 0) throw new EventFault('secret_wrong')
}

export async function readLogoutRequest({ headers, body }: Pick<Exchange, 'headers' | 'body'>): Promise<string> {
  requireType(headers, 'application/x-www-form-urlencoded')
  const form = (await body.read(bodyLimitBytes)).toString('latin1')
  const [token, ...others] = new URLSearchParams(form).getAll('logout_token')
  if (token === undefined || others.length > 0) throw new GatewayError('malformed')
  return token
}

export async function readEventRequest({ headers, body }: Pick<Exchange, 'headers' | 'body'>): Promise<string> {
  requireType(headers, 'application/secevent+jwt')
  return (await body.read(bodyLimitBytes)).toString('latin1')
}

function requireType(headers: Exchange['headers'], wanted: string): void {
  const types = headers.filter((_, index) => index % 2 === 1 && headers[index - 1]?.toLowerCase() === 'content-type')
  if (types.length !== 1 || types[0]?.split(';', 1)[0]?.trim().toLowerCase() !== wanted)
    throw new GatewayError('malformed')
  requirePlainBody(headers)
}
