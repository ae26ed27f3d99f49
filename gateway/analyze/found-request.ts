import { redact } from '../observe/log/redact.ts'

export type FoundRequest = Readonly<{
  source: string
  time: string
  listener: string | null
  outcome: 'allowed' | 'refused' | 'failed' | 'ended' | 'slow'
  status: number | null
  reason: string | null
  cause: string | null
  check: string | null
  userId: number | string | null
  userKind: string | null
  credential: string | null
  tokenId: number | null
  organizationId: number | null
  route: string | null
  method: string | null
  path: string | null
  upstream: string | null
  clientAddress: string | null
  replica: string | null
  durationMs: number | null
}>

type Fields = Readonly<Record<string, unknown>>

/** Twice the longest value that a gateway writes. */
const textLimit = 2_048

/** A file or a listener may hold what no gateway wrote: a credential in it stays out of the output. */
const readText = (value: unknown): string | null =>
  typeof value === 'string' ? redact(value.slice(0, textLimit)) : null

const readNumber = (value: unknown): number | null =>
  typeof value === 'number' && Number.isFinite(value) ? value : null

const readFields = (value: unknown): Fields => Object(value) as Fields // a member that is missing reads as undefined

// RFC 9110 15.6
const serverFailure = 500

const readOutcome = ({ audit, outcome, status }: Fields): FoundRequest['outcome'] | undefined => {
  if (audit === 'decision') return outcome === 'allowed' ? 'allowed' : 'refused'
  if (audit === 'failure') return Number(status) >= serverFailure ? 'failed' : 'refused'
  return audit === 'end' ? 'ended' : undefined
}

export function readAuditLine(line: string, requestId: string, source: string): FoundRequest | undefined {
  const fields = readFields(parseJson(line))
  const outcome = readOutcome(fields)
  if (outcome === undefined || fields.requestId !== requestId) return undefined
  const [subject, credential] = [readFields(fields.subject), readFields(fields.credential)]
  return {
    source,
    ...readCommon(fields),
    outcome,
    check: readText(fields.check),
    userId: readNumber(subject.id) ?? readText(subject.id),
    userKind: readText(subject.kind),
    credential: readText(credential.kind),
    tokenId: readNumber(credential.id) ?? readNumber(fields.tokenId),
    upstream: readText(fields.upstream),
    replica: readText(fields.replica),
    durationMs: readNumber(fields.durationMs),
  }
}

const outcomes: Readonly<Record<string, FoundRequest['outcome']>> = {
  refusal: 'refused',
  failure: 'failed',
  slow: 'slow',
}

export function readRemembered(body: string, requestId: string, source: string): readonly FoundRequest[] {
  const { requests: list } = readFields(parseJson(body))
  if (!Array.isArray(list)) throw new Error('the answer is not a list of requests')
  return list.flatMap((item): readonly FoundRequest[] => {
    const fields = readFields(item)
    const outcome = outcomes[String(fields.kind)]
    if (fields.requestId !== requestId || outcome === undefined) return []
    return [
      {
        source,
        ...readCommon(fields),
        outcome,
        check: null,
        userId: readNumber(fields.userId) ?? readText(fields.userId),
        userKind: null,
        credential: null,
        tokenId: readNumber(fields.tokenId),
        upstream: readText(fields.upstream),
        replica: null,
        durationMs: readNumber(fields.durationMs),
      },
    ]
  })
}

const readCommon = (fields: Fields) => ({
  time: readText(fields.time) ?? '',
  listener: readText(fields.listener),
  status: readNumber(fields.status),
  reason: readText(fields.reason),
  cause: readText(fields.cause),
  organizationId: readNumber(fields.organizationId),
  route: readText(fields.route),
  method: readText(fields.method),
  path: readText(fields.path),
  clientAddress: readText(fields.clientAddress),
})

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
