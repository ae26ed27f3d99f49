import { isUtf8 } from 'node:buffer'
import type { EventError } from '../../base/errors/event-fault.ts'
import { parseUnambiguous } from '../../base/lib/parse-shallow.ts'
import {
  askIssuer,
  type IssuerRoute,
  inTime,
  nameAddress,
  UnusableAnswer,
} from '../../stages/authenticate/ask-issuer.ts'

export type PollQuestion = Readonly<{
  maxEvents: number
  returnImmediately: boolean
  ack?: readonly string[]
  setErrs?: Readonly<Record<string, EventError>>
}>

export type PollAnswer = readonly (readonly [id: string, token: unknown])[]

export type AskForEvents = (question: PollQuestion) => Promise<PollAnswer>

type Endpoint = Readonly<{ url: string; bearer: string; route: IssuerRoute; signal: AbortSignal }>

/** 256 events of 4 KiB: a page has no more events, and most are smaller. */
const answerLimitBytes = 1024 * 1024

/** RFC 8936 2.3: an object with a map of texts. The bound keeps the reader's stack flat. */
const mostDepth = 8

export function createAskForEvents({ url, bearer, route, signal }: Endpoint): AskForEvents {
  const { through, timeoutMs } = route
  const headers = {
    authorization: `Bearer ${bearer}`,
    'content-type': 'application/json',
    'content-language': 'en',
  }
  return (question) =>
    through((ask) =>
      inTime({ signal, address: url, timeoutMs }, async (bounded) => {
        const request = { url, limitBytes: answerLimitBytes, headers, body: JSON.stringify(question) }
        return readPollAnswer(await askIssuer(request, ask, bounded), url)
      }),
    )
}

export function readPollAnswer(body: Buffer, url: string): PollAnswer {
  const answer = isUtf8(body) ? parseAnswer(body.toString('utf8')) : undefined
  if (!isRecord(answer) || !('sets' in answer) || !isRecord(answer.sets))
    throw new UnusableAnswer(`the response of ${nameAddress(url)} is not one of RFC 8936`)
  return Object.entries(answer.sets)
}

const isRecord = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function parseAnswer(text: string): unknown {
  try {
    return parseUnambiguous(text, mostDepth)
  } catch {
    return undefined
  }
}
