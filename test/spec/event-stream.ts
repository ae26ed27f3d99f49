import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

export const pollSecret = 'poll-secret-for-the-transmitter-0123456789'

export type EventQuestion = Readonly<{
  maxEvents: number
  returnImmediately: boolean
  ack?: readonly string[]
  setErrs?: Readonly<Record<string, Readonly<{ err: string; description: string }>>>
}>

type Asked = Readonly<{ question: EventQuestion; headers: IncomingHttpHeaders }>

type Verification = Readonly<{ stream_id: string; state: string; authorization: string | undefined }>

type Disturb = (response: ServerResponse) => void

const holdMs = 2_000

/** A stream of events with the endpoint of RFC 8936: it gives each event until it is acknowledged or refused. */
export async function startEventStream(t: Test, onAck: (id: string) => Promise<void> = async () => undefined) {
  const waiting = new Map<string, unknown>()
  const acked: string[] = []
  const errors = new Map<string, string>()
  const asked: Asked[] = []
  const open = { now: 0, most: 0 }
  let disturb: Disturb | undefined
  let forgets = true
  const verifications: Verification[] = []
  let verify: ((state: string, response: ServerResponse) => void) | undefined
  const held = new Set<() => void>()
  const settle = async ({ ack = [], setErrs = {} }: EventQuestion): Promise<void> => {
    for (const id of ack) await onAck(id)
    acked.push(...ack)
    for (const [id, { err }] of Object.entries(setErrs)) errors.set(id, err)
    if (forgets) for (const id of [...ack, ...Object.keys(setErrs)]) waiting.delete(id)
  }
  const hold = (): Promise<void> =>
    new Promise((resolve) => {
      const end = (): void => {
        held.delete(end)
        resolve()
      }
      held.add(end)
      setTimeout(end, holdMs).unref()
    })
  const answer = async (question: EventQuestion, response: ServerResponse): Promise<void> => {
    await settle(question)
    if (disturb) return disturb(response)
    if (waiting.size === 0 && !question.returnImmediately) await hold()
    const entries = [...waiting].slice(0, question.maxEvents)
    const body = { sets: Object.fromEntries(entries), moreAvailable: waiting.size > entries.length }
    response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
  }
  const server = createServer(async (request, response) => {
    open.now += 1
    open.most = Math.max(open.most, open.now)
    response.on('close', () => (open.now -= 1))
    let text = ''
    for await (const part of request) text += String(part)
    const { headers } = request
    if (request.url?.startsWith('/verify')) {
      const asked = { ...JSON.parse(text), authorization: headers.authorization }
      verifications.push(asked)
      if (verify) verify(asked.state, response)
      else response.writeHead(204).end()
      return
    }
    const question: EventQuestion = JSON.parse(text)
    asked.push({ question, headers })
    if (headers.authorization === `Bearer ${pollSecret}`) await answer(question, response)
    else response.writeHead(401).end()
  })
  server.on('request', (_request, response) => response.on('error', () => undefined))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  t.teardown(() => server.closeAllConnections())
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // a TCP listener's address is never a string
  return {
    endpoint: `${origin}/poll?stream=1`,
    verification: { endpoint: `${origin}/verify`, bearer: pollSecret, streamId: 'stream-1', everyMs: 1_000 },
    verifications,
    answerVerification: (how: typeof verify): void => {
      verify = how
    },
    asked,
    acked,
    errors,
    open,
    waiting,
    offer: (tokens: Readonly<Record<string, unknown>>): void => {
      for (const [id, token] of Object.entries(tokens)) waiting.set(id, token)
      for (const end of held) end()
    },
    disturb: (how: Disturb | undefined): void => {
      disturb = how
    },
    keepAcknowledged: (): void => {
      forgets = false
    },
  }
}

export type EventStream = Awaited<ReturnType<typeof startEventStream>>

/** Settings by which a transmitter is polled and does not push. */
export const polled = ({ endpoint }: EventStream, more: object = {}) => ({
  push: undefined,
  poll: { endpoint, bearer: pollSecret, everyMs: 100, ...more },
})
