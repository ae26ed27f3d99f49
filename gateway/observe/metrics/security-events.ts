import type { Meter } from './meter.ts'

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

export function createSecurityEventMetrics(meter: Meter): SecurityEventMetrics {
  const events = meter.counter(
    'sallyport_security_events_total',
    'Security event tokens, by transmitter, event, outcome and cause: stored, unstored, noted, ignored or refused.',
    'transmitter',
    'event',
    'outcome',
    'cause',
  )
  const lastAt = meter.gauge(
    'sallyport_security_event_timestamp_seconds',
    'When this process last took a valid security event token of the transmitter; its start before the first.',
    'transmitter',
  )
  const statusAt = meter.gauge(
    'sallyport_event_stream_status_timestamp_seconds',
    'When the transmitter last told this process that its stream is enabled, paused or disabled; 0 for never.',
    'transmitter',
    'status',
  )
  const pollMetrics = createPollMetrics(meter)
  const { verifications, verifiedAt, interval } = createVerificationMetrics(meter)
  const verified = new Map<string, number>()
  return {
    countEvent: (transmitter = 'unknown', event, outcome, cause) => {
      events(transmitter, event, outcome, cause).count += 1
    },
    // A transmitter that has sent nothing needs its series, too: an alert on its silence compares them.
    expectEvents: (transmitters, at) => {
      for (const transmitter of transmitters) {
        lastAt.set({ transmitter }, at.getTime() / 1000)
        for (const status of ['enabled', 'paused', 'disabled']) statusAt.set({ transmitter, status }, 0)
        for (const cause of ['none', 'without_subject', 'address'])
          events(transmitter, 'session-revoked', 'stored', cause)
      }
    },
    noteEvent: (transmitter, at) => lastAt.set({ transmitter }, at.getTime() / 1000),
    noteStreamStatus: (transmitter, status, at) => statusAt.set({ transmitter, status }, at.getTime() / 1000),
    ...pollMetrics,
    expectVerification: (transmitter, everySeconds, atSeconds) => {
      interval.set({ transmitter }, everySeconds)
      if (!verified.has(transmitter)) verifiedAt.set({ transmitter }, atSeconds)
      for (const outcome of ['asked', 'failed', 'missed']) verifications(transmitter, outcome)
    },
    countVerification: (transmitter, outcome) => {
      verifications(transmitter, outcome).count += 1
    },
    noteVerified: (transmitter, askedAtSeconds) => {
      const last = Math.max(verified.get(transmitter) ?? 0, askedAtSeconds)
      verified.set(transmitter, last)
      verifiedAt.set({ transmitter }, last)
    },
  }
}

function createPollMetrics({ counter, gauge }: Meter): Pick<SecurityEventMetrics, 'countPoll' | 'notePoll'> {
  const polls = counter(
    'sallyport_event_polls_total',
    'Polls of a transmitter for security events, by transmitter and outcome: answered or failed.',
    'transmitter',
    'outcome',
  )
  const pollAt = gauge(
    'sallyport_event_poll_timestamp_seconds',
    'When the transmitter last answered a poll of this process; the start of the process before the first.',
    'transmitter',
  )
  return {
    countPoll: (transmitter, outcome) => {
      polls(transmitter, outcome).count += 1
    },
    notePoll: (transmitter, at) => pollAt.set({ transmitter }, at.getTime() / 1000),
  }
}

function createVerificationMetrics({ counter, gauge }: Meter) {
  const verifications = counter(
    'sallyport_event_stream_verifications_total',
    'Verification events of a transmitter, by outcome: asked for, failed to ask, or missed by the next question.',
    'transmitter',
    'outcome',
  )
  const verifiedAt = gauge(
    'sallyport_event_stream_verified_timestamp_seconds',
    'When the verification event that came last was asked for; the start of the process before the first.',
    'transmitter',
  )
  const interval = gauge(
    'sallyport_event_stream_verification_interval_seconds',
    'How often verification events are asked for.',
    'transmitter',
  )
  return { verifications, verifiedAt, interval }
}
