import { createHmac, timingSafeEqual } from 'node:crypto'
import { EventFault } from '../../base/errors/event-fault.ts'
import { verificationLookMs } from '../../rights/paces.ts'
import { type IssuerRoute, inTime, tellIssuer } from '../../stages/authenticate/ask-issuer.ts'

export type States = Readonly<{ write: (askedAt: number) => string; read: (state: string) => number }>

export function createStates(secret: string, transmitter: string): States {
  const hash = (askedAt: string): Buffer =>
    createHmac('sha256', secret)
      .update(JSON.stringify(['verification', transmitter, askedAt]))
      .digest()
  return {
    write: (askedAt) => `${askedAt}.${hash(String(askedAt)).toString('base64url')}`,
    read: (state) => {
      const [, askedAt = '', told = ''] = /^(\d{1,12})\.([A-Za-z0-9_-]{43})$/.exec(state) ?? []
      if (!timingSafeEqual(hash(askedAt), Buffer.from(told.padEnd(43, 'A'), 'base64url')))
        throw new EventFault('state_wrong')
      return Number(askedAt)
    },
  }
}

type Endpoint = Readonly<{ url: string; bearer: string; streamId: string; route: IssuerRoute; signal: AbortSignal }>

export type AskForVerification = (state: string) => Promise<void>

export const createAskForVerification =
  ({ url, bearer, streamId, route: { through, timeoutMs }, signal }: Endpoint): AskForVerification =>
  (state) =>
    through((ask) =>
      inTime({ signal, address: url, timeoutMs }, (bounded) => {
        const headers = { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' }
        return tellIssuer({ url, headers, body: JSON.stringify({ stream_id: streamId, state }) }, ask, bounded)
      }),
    )

export type VerificationOptions = Readonly<{
  everyMs: number
  claim: () => Promise<Readonly<{ askedAt: number | undefined; verifiedAt: number | undefined; isLastMissed: boolean }>>
  ask: (askedAt: number) => Promise<void>
  onVerified: (askedAt: number) => void
  onOutcome: (outcome: 'asked' | 'failed' | 'missed', error?: unknown) => void
  random: () => number
  sleep: (ms: number) => Promise<void>
  isStopped: () => boolean
}>

export async function verifyStream(options: VerificationOptions): Promise<void> {
  const { everyMs, claim, ask, onVerified, onOutcome, random, sleep, isStopped } = options
  const round = async (): Promise<void> => {
    const { askedAt, verifiedAt, isLastMissed } = await claim()
    if (verifiedAt !== undefined) onVerified(verifiedAt)
    if (isLastMissed) onOutcome('missed')
    if (askedAt === undefined) return
    await ask(askedAt)
    onOutcome('asked')
  }
  while (!isStopped()) {
    await round().catch((error: unknown) => {
      if (!isStopped()) onOutcome('failed', error)
    })
    await sleep(Math.min(everyMs, verificationLookMs) * (0.5 + random() / 2))
  }
}
