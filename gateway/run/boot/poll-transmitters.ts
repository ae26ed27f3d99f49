import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Configuration, TransmitterSettings } from '../../configuration/configuration.ts'
import type { EventStreamStore } from '../../directory/postgres/event-streams.ts'
import { pollForEvents } from '../../listeners/signals/poll.ts'
import { createAskForEvents } from '../../listeners/signals/poll-question.ts'
import type { SignalReceivers } from '../../listeners/signals/signals.ts'
import { createAskForVerification, createStates, verifyStream } from '../../listeners/signals/verification.ts'
import { describeError } from '../../observe/log/log.ts'
import type { IssuerRoute } from '../../stages/authenticate/ask-issuer.ts'
import { readRoute } from './issuer-keys.ts'
import type { ProcessContext } from './process-context.ts'
import { reportSignals } from './security-events.ts'

export type Polls = Readonly<{ stop: () => void }>

type Work = Readonly<{
  signal: AbortSignal
  routeOf: (settings: TransmitterSettings, timeoutMs: number) => IssuerRoute
  sleep: (ms: number) => Promise<void>
  isStopped: () => boolean
}>

type PollDependencies = Pick<ProcessContext, 'log' | 'metrics'> &
  Readonly<{ now: () => Date; monotonicMs: () => number }>

export function startPolls(
  configuration: Pick<Configuration, 'issuers' | 'transmitters'> | undefined,
  { takeEvent }: Pick<SignalReceivers, 'takeEvent'>,
  eventStreams: EventStreamStore | undefined,
  dependencies: PollDependencies,
): Polls {
  const stopping = new AbortController()
  const { signal } = stopping
  // All transmitters wait on this one signal, and Node takes more than ten listeners for a leak.
  setMaxListeners(0, signal)
  const { issuers, transmitters } = configuration ?? { issuers: [], transmitters: [] }
  const work: Work = {
    signal,
    routeOf: (settings, timeoutMs) => {
      // A transmitter without TLS settings or a proxy of its own is reached as its issuer is.
      const own = settings.tls || settings.proxy
      return readRoute({ ...(own ? settings : issuers.find(({ issuer }) => issuer === settings.issuer)), timeoutMs })
    },
    sleep: (ms) => sleep(ms, undefined, { signal, ref: false }).catch(() => undefined),
    isStopped: () => signal.aborted,
  }
  for (const settings of transmitters) {
    const ended = (error: unknown): void =>
      dependencies.log.error({ transmitter: settings.name, error: describeError(error) }, 'event stream left')
    poll(settings, takeEvent, work, dependencies).catch(ended)
    if (eventStreams) verify(settings, eventStreams, work, dependencies).catch(ended)
  }
  return { stop: () => stopping.abort() }
}

async function poll(
  settings: TransmitterSettings,
  takeEvent: SignalReceivers['takeEvent'],
  { signal, routeOf, sleep, isStopped }: Work,
  dependencies: PollDependencies,
): Promise<void> {
  const { metrics, now, monotonicMs } = dependencies
  const { onEventRefused } = reportSignals(dependencies)
  const { name } = settings
  if (!settings.poll) return
  metrics.notePoll(name, now())
  const { endpoint: url, bearer, timeoutMs, ...rules } = settings.poll
  await pollForEvents({
    ...rules,
    ask: createAskForEvents({ url, bearer, route: routeOf(settings, timeoutMs), signal }),
    createSender: () => ({ clientAddress: new URL(url).hostname, requestId: randomUUID() }),
    take: (token, sender, id) => takeEvent(name, token, sender, id),
    onRefused: (refusal, sender) => onEventRefused(refusal, name, sender),
    onAsked: createReport(settings, dependencies),
    ...{ monotonicMs, random: Math.random, sleep, isStopped },
  })
}

async function verify(
  settings: TransmitterSettings,
  { claimQuestion }: EventStreamStore,
  { signal, routeOf, sleep, isStopped }: Work,
  { log, metrics, now }: PollDependencies,
): Promise<void> {
  const { name: transmitter, verification, timeoutMs } = settings
  if (!verification) return
  const { endpoint: url, everyMs } = verification
  const states = createStates(verification.bearer, transmitter)
  const ask = createAskForVerification({ ...verification, url, route: routeOf(settings, timeoutMs), signal })
  metrics.expectVerification(transmitter, everyMs / 1000, now().getTime() / 1000)
  await verifyStream({
    everyMs,
    claim: () => claimQuestion(transmitter, everyMs / 1000),
    ask: (askedAt) => ask(states.write(askedAt)),
    onVerified: (askedAt) => metrics.noteVerified(transmitter, askedAt),
    onOutcome: (outcome, error) => {
      metrics.countVerification(transmitter, outcome)
      if (outcome === 'missed') log.warn({ transmitter }, 'verification event missed')
      if (error !== undefined) log.warn({ transmitter, error: describeError(error) }, 'verification not asked for')
    },
    ...{ random: Math.random, sleep, isStopped },
  })
}

function createReport({ name: transmitter }: TransmitterSettings, { log, metrics, now }: PollDependencies) {
  let hasFailed = false
  return (error?: unknown): void => {
    metrics.countPoll(transmitter, error === undefined ? 'answered' : 'failed')
    if (error === undefined) metrics.notePoll(transmitter, now())
    const isNews = hasFailed !== (error !== undefined)
    hasFailed = error !== undefined
    if (hasFailed)
      log[isNews ? 'warn' : 'debug']({ transmitter, error: describeError(error) }, 'transmitter not polled')
    else if (isNews) log.info({ transmitter }, 'transmitter polled again')
  }
}
