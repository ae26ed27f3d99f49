import type { StreamKind, StreamRules } from '../../gateway/base/errors/surface.ts'
import { UnorderedList } from '../../gateway/base/lib/unordered-list.ts'
import { type BodyEnd, UpstreamError, type UpstreamFault } from '../../gateway/http/engine.ts'
import type { Exchange } from '../../gateway/http/exchange.ts'
import { freeAccount } from '../../gateway/http/memory-budget.ts'
import { EventStreamRelay, type StreamSettings, type StreamSource } from '../../gateway/stages/relay/event-stream.ts'
import type { StartTimer } from '../../gateway/stages/relay/timer.ts'

/** A clock that stands still until it is told how far to go. */
export function createManualClock() {
  let nowMs = Date.UTC(2026, 0, 1)
  const running = new Map<object, { atMs: number; ms: number; onTime: () => void }>()
  const startTimer: StartTimer = (ms, tell, target) => {
    const timer = {}
    const onTime = (): void => tell(target)
    running.set(timer, { atMs: nowMs + ms, ms, onTime })
    return {
      restart: () => void running.set(timer, { atMs: nowMs + ms, ms, onTime }),
      stop: () => void running.delete(timer),
    }
  }
  return {
    startTimer,
    now: () => new Date(nowMs),
    countRunning: () => running.size,
    advance: (ms: number) => {
      const endMs = nowMs + ms
      for (;;) {
        const [next] = [...running].sort(([, a], [, b]) => a.atMs - b.atMs)
        if (!next || next[1].atMs > endMs) break
        nowMs = next[1].atMs
        running.delete(next[0])
        next[1].onTime()
      }
      nowMs = endMs
    },
  }
}

export type FakeOptions = Readonly<{
  kind?: StreamKind
  /** The good end of the stream. */
  ends?: StreamRules['end']
  confirm?: () => Promise<void> | undefined
  eventLimitBytes?: number
  headError?: Error
  /** The client was gone before there was a stream. */
  hasLeft?: boolean
}>

/** A watched stream between an upstream and a client that both do as the test says, and all that was seen of it. */
export function openFakeStream({
  kind = 'responses',
  ends = 'marker',
  confirm = () => undefined,
  eventLimitBytes = 1_000,
  headError,
  hasLeft = false,
}: FakeOptions = {}) {
  const clock = createManualClock()
  const seen = {
    written: '',
    writes: 0,
    heads: 0,
    ends: 0,
    aborts: 0,
    resumes: 0,
    started: 0,
    refusal: undefined as unknown,
    failures: [] as string[],
    faults: [] as unknown[],
    breaks: 0,
    resets: 0,
    closes: 0,
  }
  let isSlow = false
  let onDrain = (): void => {}
  const onEnd: ((isComplete: boolean) => void)[] = []
  const source: StreamSource = {
    abort: () => void seen.aborts++,
    resume: () => void seen.resumes++,
  }
  const exchange: Pick<Exchange, 'account' | 'startResponse' | 'onEnd' | 'destroy' | 'reset' | 'closeAfterResponse'> = {
    account: freeAccount,
    startResponse: () => {
      if (headError) throw headError
      seen.heads++
      return {
        write: (chunk) => {
          seen.writes++
          seen.written += Buffer.from(chunk).toString('latin1')
          return !isSlow
        },
        onDrain: (listener) => {
          onDrain = listener
        },
        end: () => void seen.ends++,
      }
    },
    destroy: () => void seen.breaks++,
    reset: () => void seen.resets++,
    closeAfterResponse: () => void seen.closes++,
    onEnd: (listener, target) => {
      const tell = (isComplete: boolean): void => listener(isComplete, target as never) // each target is its listener's
      if (hasLeft) tell(false)
      else onEnd.push(tell)
    },
  }
  const open = new UnorderedList<EventStreamRelay>()
  const settings: StreamSettings = {
    keepAliveMs: 15_000,
    eventLimitBytes,
    startTimer: clock.startTimer,
    now: clock.now,
    makeId: () => 'made',
    open,
  }
  // The machine uses no more of the exchange than stands above.
  const stream = new EventStreamRelay(source, exchange as Exchange, settings, {
    rules: { kind, end: ends },
    confirm,
    head: { status: 200, headers: [] },
    onStarted: () => void seen.started++,
    onRefused: (error) => {
      seen.refusal = error
    },
    observer: {
      onStreamFailure: (code) => void seen.failures.push(code),
      onBug: (error) => void seen.faults.push(error),
    },
  })
  return {
    seen,
    clock,
    stream,
    isOpen: () => [...open].includes(stream),
    /** Texts are taken as latin1, like what was written. */
    /** Gives bytes as the engine does, which reuses their memory afterwards. */
    data: (text: string | Buffer) => {
      const lent = typeof text === 'string' ? Buffer.from(text, 'latin1') : Buffer.from(text)
      const wantsMore = stream.data(lent)
      lent.fill('?')
      return wantsMore
    },
    /** By its connection alone, unless the test says that framing proved it. */
    end: (how: BodyEnd = 'closed') => stream.end(how),
    fail: (fault: UpstreamFault) => stream.fail(new UpstreamError(fault)),
    leave: () => {
      for (const listener of onEnd) listener(false)
    },
    slowDown: () => {
      isSlow = true
    },
    catchUp: () => {
      isSlow = false
      onDrain()
    },
  }
}

export type FakeStream = ReturnType<typeof openFakeStream>
