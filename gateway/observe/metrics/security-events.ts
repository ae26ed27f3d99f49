import { Counter, Gauge, type Registry } from 'prom-client'

export type EventOutcome = 'stored' | 'unstored' | 'noted' | 'ignored' | 'refused'

export type SecurityEventMetrics = Readonly<{
  countEvent: (transmitter: string | undefined, event: string, outcome: EventOutcome, cause: string) => void
  expectEvents: (transmitters: readonly string[], at: Date) => void
  noteEvent: (transmitter: string, at: Date) => void
  noteStreamStatus: (transmitter: string, status: string, at: Date) => void
  countPoll: (transmitter: string, outcome: 'answered' | 'failed') => void
  notePoll: (transmitter: string, at: Date) => void
  expectVerification: (transmitter: string, everySeconds: number, atSeconds: number) => void
  countVerification: (transmitter: string, outcome: 'asked' | 'failed' | 'missed') => void
  noteVerified: (transmitter: string, askedAtSeconds: number) => void
}>

export function createSecurityEventMetrics(registers: Registry[]): SecurityEventMetrics {
  const events = new Counter({
    name: 'sallyport_security_events_total',
    help: 'Security event tokens, by transmitter, event, outcome and cause: stored, unstored, noted, ignored or refused.',
    labelNames: ['transmitter', 'event', 'outcome', 'cause'],
    registers,
  })
  const lastAt = new Gauge({
    name: 'sallyport_security_event_timestamp_seconds',
    help: 'When this process last took a valid security event token of the transmitter; its start before the first.',
    labelNames: ['transmitter'],
    registers,
  })
  const statusAt = new Gauge({
    name: 'sallyport_event_stream_status_timestamp_seconds',
    help: 'When the transmitter last told this process that its stream is enabled, paused or disabled; 0 for never.',
    labelNames: ['transmitter', 'status'],
    registers,
  })
  const polls = new Counter({
    name: 'sallyport_event_polls_total',
    help: 'Polls of a transmitter for security events, by transmitter and outcome: answered or failed.',
    labelNames: ['transmitter', 'outcome'],
    registers,
  })
  const pollAt = new Gauge({
    name: 'sallyport_event_poll_timestamp_seconds',
    help: 'When the transmitter last answered a poll of this process; the start of the process before the first.',
    labelNames: ['transmitter'],
    registers,
  })
  const { verifications, verifiedAt, interval } = createVerificationMetrics(registers)
  const verified = new Map<string, number>()
  return {
    countEvent: (transmitter = 'unknown', event, outcome, cause) => events.inc({ transmitter, event, outcome, cause }),
    expectEvents: (transmitters, at) => {
      for (const transmitter of transmitters) {
        lastAt.set({ transmitter }, at.getTime() / 1000)
        for (const status of ['enabled', 'paused', 'disabled']) statusAt.set({ transmitter, status }, 0)
        for (const cause of ['none', 'without_subject', 'address'])
          events.inc({ transmitter, event: 'session-revoked', outcome: 'stored', cause }, 0)
      }
    },
    noteEvent: (transmitter, at) => lastAt.set({ transmitter }, at.getTime() / 1000),
    noteStreamStatus: (transmitter, status, at) => statusAt.set({ transmitter, status }, at.getTime() / 1000),
    countPoll: (transmitter, outcome) => polls.inc({ transmitter, outcome }),
    notePoll: (transmitter, at) => pollAt.set({ transmitter }, at.getTime() / 1000),
    expectVerification: (transmitter, everySeconds, atSeconds) => {
      interval.set({ transmitter }, everySeconds)
      if (!verified.has(transmitter)) verifiedAt.set({ transmitter }, atSeconds)
      for (const outcome of ['asked', 'failed', 'missed']) verifications.inc({ transmitter, outcome }, 0)
    },
    countVerification: (transmitter, outcome) => verifications.inc({ transmitter, outcome }),
    noteVerified: (transmitter, askedAtSeconds) => {
      const last = Math.max(verified.get(transmitter) ?? 0, askedAtSeconds)
      verified.set(transmitter, last)
      verifiedAt.set({ transmitter }, last)
    },
  }
}

function createVerificationMetrics(registers: Registry[]) {
  const verifications = new Counter({
    name: 'sallyport_event_stream_verifications_total',
    help: 'Verification events of a transmitter, by outcome: asked for, failed to ask, or missed by the next question.',
    labelNames: ['transmitter', 'outcome'],
    registers,
  })
  const verifiedAt = new Gauge({
    name: 'sallyport_event_stream_verified_timestamp_seconds',
    help: 'When the verification event that came last was asked for; the start of the process before the first.',
    labelNames: ['transmitter'],
    registers,
  })
  const interval = new Gauge({
    name: 'sallyport_event_stream_verification_interval_seconds',
    help: 'How often verification events are asked for.',
    labelNames: ['transmitter'],
    registers,
  })
  return { verifications, verifiedAt, interval }
}
