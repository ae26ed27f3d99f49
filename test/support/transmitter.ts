import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import type { Test } from 'tap'
import { type Answer, call } from './client.ts'
import type { LogoutFixture } from './logout-fixture.ts'

const seconds = (): number => Math.floor(Date.now() / 1_000)

export const eventTypes = {
  sessionRevoked: 'https://schemas.openid.net/secevent/caep/event-type/session-revoked',
  credentialChange: 'https://schemas.openid.net/secevent/caep/event-type/credential-change',
  tokenClaimsChange: 'https://schemas.openid.net/secevent/caep/event-type/token-claims-change',
  accountDisabled: 'https://schemas.openid.net/secevent/risc/event-type/account-disabled',
  verification: 'https://schemas.openid.net/secevent/ssf/event-type/verification',
  streamUpdated: 'https://schemas.openid.net/secevent/ssf/event-type/stream-updated',
} as const

export const eventAudience = 'https://gateway.example/ssf'

export const pushSecret = 'push-secret-of-the-transmitter-0123456789'

type Members = Readonly<Record<string, unknown>>

/** A transmitter of security events with keys of its own (RS256), and the count of how often they were asked for. */
export async function startTransmitter(t: Test) {
  const { publicKey, privateKey } = await generateKeyPair('RS256')
  const jwk = { ...(await exportJWK(publicKey)), kid: 'events', alg: 'RS256' }
  let asked = 0
  let isFailing = false
  const server = createServer((_request, response) => {
    asked += 1
    if (isFailing) response.statusCode = 500
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ keys: [jwk] }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.closeAllConnections())
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  const issuer = `http://127.0.0.1:${port}`
  let count = 0
  /** Signs a token with these claims in place of the usual ones; null removes one. */
  const sign = (claims: Members, header: object = {}): Promise<string> => {
    count += 1
    const usual = { iss: issuer, aud: eventAudience, iat: seconds(), jti: `event-${count}`, txn: 'txn' }
    const present = Object.fromEntries(Object.entries({ ...usual, ...claims }).filter(([, value]) => value !== null))
    return new SignJWT(present)
      .setProtectedHeader({ alg: 'RS256', kid: 'events', typ: 'secevent+jwt', ...header })
      .sign(privateKey)
  }
  const tell = (type: string, subject: unknown, event: object = {}, claims: Members = {}): Promise<string> =>
    sign({ sub_id: subject, events: { [type]: event }, ...claims })
  const fail = (isToFail: boolean): void => {
    isFailing = isToFail
  }
  return { issuer, sign, tell, fail, asked: () => asked }
}

export type TestTransmitter = Awaited<ReturnType<typeof startTransmitter>>

export const pushEvent = (
  { signals }: Readonly<{ signals: string }>,
  token: string,
  { name = 'idp', secret = pushSecret, headers = {} }: PushOptions = {},
): Promise<Answer> =>
  call(signals, {
    method: 'POST',
    path: `/ssf/${name}`,
    headers: {
      'content-type': 'application/secevent+jwt',
      ...(secret === undefined ? {} : { authorization: `Bearer ${secret}` }),
      ...headers,
    },
    body: token,
  })

type PushOptions = Readonly<{ name?: string; secret?: string; headers?: Readonly<Record<string, string>> }>

/** The settings of a gateway that also takes events of the transmitter about the subjects of the issuer. */
export const withTransmitter = (
  { issuer, settings }: Pick<LogoutFixture, 'issuer' | 'settings'>,
  transmitter: TestTransmitter,
  more: object = {},
) => ({
  ...settings,
  issuers: settings.issuers.map((one) => ({ ...one, trustEmailVerified: true })),
  transmitters: [
    {
      name: 'idp',
      issuer: transmitter.issuer,
      jwksUri: `${transmitter.issuer}/keys`,
      audience: eventAudience,
      speaksFor: [issuer.issuer],
      clockToleranceSeconds: 0,
      push: { bearer: pushSecret },
      ...more,
    },
  ],
})
