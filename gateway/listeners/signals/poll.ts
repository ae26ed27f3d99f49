import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describeEventError, type EventError, EventFault } from '../../base/errors/event-fault.ts'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import { createBoundedMap } from '../../base/lib/bounded-map.ts'
import { keyPatienceMs, pollPausesMs } from '../../rights/paces.ts'
import type { AskForEvents, PollQuestion } from './poll-question.ts'
import type { Sender } from './signals.ts'

export type PollOptions = Readonly<{
  maxEvents: number
  returnImmediately: boolean
  everyMs: number
  ask: AskForEvents
  createSender: () => Sender
  take: (token: string, sender: Sender, id: string) => Promise<unknown>
  onRefused: (refusal: Refusal, sender: Sender) => void
  onAsked: (error?: unknown) => void
  monotonicMs: () => number
  random: () => number
  sleep: (ms: number) => Promise<void>
  isStopped: () => boolean
}>

type Refusal = GatewayError | EventFault

type Reply = Readonly<{ kind: 'stored' | 'later' }> | Readonly<{ kind: 'refused'; error: EventError }>

type Judged = Readonly<{ id: string; reply: Reply; isNew: boolean }>

export async function pollForEvents(options: PollOptions): Promise<void> {
  const { maxEvents, returnImmediately, everyMs, ask, onAsked, monotonicMs, random, sleep, isStopped } = options
  const judge = createJudge(options)
  let untold: readonly Judged[] = []
  let stalls = 0
  const pause = (longestMs: number): number => {
    stalls += 1
    return Math.min(longestMs, pollPausesMs.first * 2 ** (stalls - 1)) * (0.5 + random() / 2)
  }
  const round = async (): Promise<number> => {
    const startedMs = monotonicMs()
    const sets = await ask({ maxEvents, returnImmediately, ...composeReplies(untold) })
    untold = []
    onAsked()
    const judged: Promise<Judged>[] = []
    for (const [id, token] of sets.slice(0, maxEvents)) {
      judged.push(judge(id, token))
      await nextTurn()
    }
    untold = await Promise.all(judged)
    // A transmitter that sends the same events again and again would otherwise be asked without a pause.
    if (untold.length > 0 && !untold.some(({ isNew }) => isNew)) return pause(pollPausesMs.longestStall)
    stalls = 0
    if (untold.length === 0) return Math.max(0, everyMs - (monotonicMs() - startedMs))
    const refused = untold.filter(({ isNew, reply }) => isNew && reply.kind === 'refused')
    return Math.min(pollPausesMs.longestStall, refused.length * pollPausesMs.perRefusal)
  }
  while (!isStopped()) {
    const pauseMs = await round().catch((error: unknown) => {
      if (!isStopped()) onAsked(error)
      return pause(pollPausesMs.longest)
    })
    if (pauseMs > 0) await sleep(pauseMs)
  }
}

function composeReplies(judged: readonly Judged[]): Pick<PollQuestion, 'ack' | 'setErrs'> {
  const ack = judged.flatMap(({ id, reply }) => (reply.kind === 'stored' ? [id] : []))
  const errors = judged.flatMap(({ id, reply }) => (reply.kind === 'refused' ? [[id, reply.error] as const] : []))
  return { ...(ack.length > 0 && { ack }), ...(errors.length > 0 && { setErrs: Object.fromEntries(errors) }) }
}

type Seen = Readonly<{ kind: Reply['kind']; firstMs: number }>

/** A transmitter sends an event again until it has heard of it (RFC 8936, section 2.4), so the last ones are known by their bytes. */
const mostSeen = 1_024

function createJudge({ createSender, take, onRefused, monotonicMs }: PollOptions) {
  const seen = createBoundedMap<Seen>(mostSeen)
  const readRefusal = async (id: string, token: unknown, sender: Sender): Promise<Refusal | undefined> => {
    try {
      if (typeof token !== 'string') throw new EventFault('event_malformed')
      await take(token, sender, id)
      return undefined
    } catch (error) {
      return error instanceof EventFault ? error : GatewayError.from(error)
    }
  }
  return async (id: string, token: unknown): Promise<Judged> => {
    const key = createHash('sha256')
      .update(JSON.stringify([id, token]))
      .digest('base64')
    const known = seen.get(key)
    if (known?.kind === 'stored') return { id, reply: { kind: 'stored' }, isNew: false }
    const firstMs = known?.firstMs ?? monotonicMs()
    const sender = createSender()
    const refusal = await readRefusal(id, token, sender)
    const kind = !refusal ? 'stored' : mayPass(refusal, monotonicMs() - firstMs) ? 'later' : 'refused'
    const isNew = kind !== 'later' && kind !== known?.kind
    seen.set(key, { kind, firstMs })
    if (!refusal || kind !== 'refused') {
      if (refusal && refusal.exactCause !== 'unknown_key') onRefused(refusal, sender)
      return { id, isNew, reply: { kind: kind === 'stored' ? 'stored' : 'later' } }
    }
    if (isNew) onRefused(refusal, sender)
    return { id, isNew, reply: { kind, error: describeEventError(refusal) } }
  }
}

/** Keys are fetched for an unknown one twice a minute at most, so the transmitter may have just replaced its own. */
function mayPass(refusal: Refusal, ageMs: number): boolean {
  if (refusal instanceof EventFault) return false
  return refusal.status >= 500 || (refusal.exactCause === 'unknown_key' && ageMs < keyPatienceMs)
}
