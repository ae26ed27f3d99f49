import { guarded } from '../fault/guarded.ts'
import { type Send, UpstreamError, type UpstreamRequest, type UpstreamResult } from '../http/engine.ts'

export type HealthRules = Readonly<{
  path: string
  intervalMs: number
  timeoutMs: number
  /** So many checks in a row change what is thought of an address. */
  unhealthyAfter: number
  healthyAfter: number
}>

export type HealthCheck = Readonly<{
  origins: readonly string[]
  rules: HealthRules
  tls: () => UpstreamRequest['tls']
  send: Send
  note: (origin: string, isHealthy: boolean) => void
}>

/** Asks every address again and again, each on a connection of its own, until it is stopped. */
export function startHealthChecks({ origins, rules, tls, send, note }: HealthCheck): () => void {
  const stops = origins.map((origin) => {
    const reach = createThreshold(rules)
    const probe = async (): Promise<void> => {
      const isGood = await ask(origin, rules, tls(), send)
      const isHealthy = isGood === undefined ? undefined : reach(isGood)
      if (isHealthy !== undefined) note(origin, isHealthy)
    }
    return repeatEvery(probe, rules.intervalMs)
  })
  return () => {
    for (const stop of stops) stop()
  }
}

/** Counts outcomes in a row; gives the new state where the threshold has been reached. */
export function createThreshold({
  unhealthyAfter,
  healthyAfter,
}: HealthRules): (isGood: boolean) => boolean | undefined {
  let row = 0
  let last: boolean | undefined
  return (isGood) => {
    row = isGood === last ? row + 1 : 1
    last = isGood
    return row >= (isGood ? healthyAfter : unhealthyAfter) ? isGood : undefined
  }
}

/** Good is a status of 200 to 299, whole and in time; undefined where we had no connection to ask by. */
async function ask(
  origin: string,
  rules: HealthRules,
  tls: UpstreamRequest['tls'],
  send: Send,
): Promise<boolean | undefined> {
  const { path, timeoutMs } = rules
  let cancel = (): void => undefined
  const timer = setTimeout(
    guarded('upstream', () => cancel()),
    timeoutMs,
  )
  try {
    const answer = await send({
      origin,
      tls,
      method: 'GET',
      path,
      headers: ['user-agent', 'sallyport-health'],
      body: undefined,
      asksForWebSocket: false,
      bodyLimitBytes: 0,
      timeouts: { connectMs: timeoutMs, firstByteMs: timeoutMs, idleMs: timeoutMs },
      // A kept one would say nothing of whether another can be opened.
      isFreshConnection: true,
      onCancellable: (cancelRequest) => {
        cancel = cancelRequest
      },
    })
    return await isGoodToItsEnd(answer)
  } catch (error) {
    // Whatever else it was, this address does not answer; the change of its state is what is told.
    return error instanceof UpstreamError && error.fault === 'pool-exhausted' ? undefined : false
  } finally {
    clearTimeout(timer)
  }
}

function isGoodToItsEnd(answer: UpstreamResult): Promise<boolean> {
  if ('connection' in answer) {
    answer.connection.destroy()
    return Promise.resolve(false)
  }
  return new Promise((resolve) => {
    const isGood = answer.status >= 200 && answer.status < 300
    answer.pipe({ data: () => true, end: () => resolve(isGood), fail: () => resolve(false) })
  })
}

function repeatEvery(probe: () => Promise<void>, intervalMs: number): () => void {
  let isStopped = false
  let timer: NodeJS.Timeout | undefined
  // Another probe comes whatever becomes of this one.
  const next = guarded('upstream', () => probe().finally(plan))
  const plan = (): void => {
    if (isStopped) return
    timer = setTimeout(next, intervalMs)
    timer.unref()
  }
  next()
  return () => {
    isStopped = true
    clearTimeout(timer)
  }
}
