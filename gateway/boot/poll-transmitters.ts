import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Configuration, TransmitterSettings } from '../configuration/configuration.ts'
import { describeError } from '../observe/log/log.ts'
import { pollForEvents } from '../signals/poll.ts'
import { createAskForEvents } from '../signals/poll-question.ts'
import type { SignalReceivers } from '../signals/signals.ts'
import { readRoute } from './issuer-keys.ts'
import type { ProcessContext } from './process-context.ts'
import { reportSignals } from './security-events.ts'

export type Polls = Readonly<{ stop: () => void }>

type PollDependencies = Pick<ProcessContext, 'log' | 'metrics'> &
  Readonly<{ now: () => Date; monotonicMs: () => number }>

export function startPolls(
  configuration: Pick<Configuration, 'issuers' | 'transmitters'> | undefined,
  { takeEvent }: Pick<SignalReceivers, 'takeEvent'>,
  dependencies: PollDependencies,
): Polls {
  const stopping = new AbortController()
  const { signal } = stopping
  const { issuers, transmitters } = configuration ?? { issuers: [], transmitters: [] }
  const { log, metrics, now, monotonicMs } = dependencies
  const { onEventRefused } = reportSignals(dependencies)
  for (const settings of transmitters) {
    const { name, issuer, poll } = settings
    if (!poll) continue
    metrics.notePoll(name, now())
    const { endpoint: url, bearer, timeoutMs, ...rules } = poll
    const own = settings.tls || settings.proxy ? settings : issuers.find((known) => known.issuer === issuer)
    const route = readRoute({ ...own, timeoutMs })
    pollForEvents({
      ...rules,
      ask: createAskForEvents({ url, bearer, route, signal }),
      createSender: () => ({ clientAddress: new URL(url).hostname, requestId: randomUUID() }),
      take: (token, sender, id) => takeEvent(name, token, sender, id),
      onRefused: (refusal, sender) => onEventRefused(refusal, name, sender),
      onAsked: createReport(settings, dependencies),
      monotonicMs,
      random: Math.random,
      sleep: (ms) => sleep(ms, undefined, { signal, ref: false }).catch(() => undefined),
      isStopped: () => signal.aborted,
    }).catch((error: unknown) => log.error({ transmitter: name, error: describeError(error) }, 'event poll ended'))
  }
  return { stop: () => stopping.abort() }
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
