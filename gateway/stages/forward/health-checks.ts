import { guarded } from '../../base/fault/guarded.ts'
import { type Send, UpstreamError, type UpstreamRequest, type UpstreamResult } from '../../http/engine.ts'

export type HealthRules = Readonly<{
  path: string
  intervalMs: number
  timeoutMs: number
  unhealthyAfter: number
  healthyAfter: number
}>

export type HealthCheck = Readonly<{
  name: string
  origins: readonly string[]
  rules: HealthRules
  tls: () => UpstreamRequest['tls']
  send: Send
  note: (origin: string, isHealthy: boolean) => void
}>

export function startHealthChecks({ name, origins, rules, tls, send, note }: HealthCheck): () => void {
  const stops = origins.map((origin) => {
    const reach = createThreshold(rules)
    const probe = async (): Promise<void> => {
      const isGood = await ask(name, origin, rules, tls(), send)
      const isHealthy = isGood === undefined ? undefined : reach(isGood)
      if (isHealthy !== undefined) note(origin, isHealthy)
    }
    return repeatEvery(probe, rules.intervalMs)
  })
  return () => {
    for (const stop of stops) stop()
  }
}

export function createThreshold({
  unhealthyAfter,
  healthyAfter,
}: HealthRules): (isGood: boolean) => boolean | undefined {
  let sameInARow = 0
  let last: boolean | undefined
  return (isGood) => {
    sameInARow = isGood === last ? sameInARow + 1 : 1
    last = isGood
    return sameInARow >= (isGood ? healthyAfter : unhealthyAfter) ? isGood : undefined
  }
}

/**
 * Whether the whole response came in time with a status of 200 to 299. Undefined if the pool had no free connection.
 */
async function ask(
  name: string,
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
      sharing: { upstream: name, route: undefined, owner: 'health', isIsolated: true },
      tls,
      method: 'GET',
      path,
      headers: ['user-agent', 'sallyport-health'],
      body: undefined,
      asksForWebSocket: false,
      bodyLimitBytes: 0,
      timeouts: { connectMs: timeoutMs, firstByteMs: timeoutMs, idleMs: timeoutMs },
      // A reused connection would not show whether a new one can be opened.
      isFreshConnection: true,
      onCancellable: (request) => {
        cancel = () => request.cancel()
      },
    })
    return await isGoodToItsEnd(answer)
  } catch (error) {
    // Every other error means that the address does not respond; the log reports the change of its state.
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
