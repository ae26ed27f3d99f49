import type { ObserveMs } from './bound-histogram.ts'
import type { Meter } from './meter.ts'

export type PoolCounts = Readonly<{ open: number; idle: number; waiting: number }>

export type DatabaseMetrics = Readonly<{
  observeQuery: (statement: string, ms: number) => void
  countQueryFailure: (kind: 'statement' | 'timeout' | 'connection') => void
  watchStandby: (isStandby: () => boolean | undefined, lagMs: () => number | undefined) => void
  watchPool: (read: () => PoolCounts, limit: number) => void
}>

const buckets = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2]

export function createDatabaseMetrics(meter: Meter): DatabaseMetrics {
  const durations = meter.histogram(
    'sallyport_database_query_duration_seconds',
    'Duration of each statement, by name, including the wait for a connection.',
    buckets,
  )
  const observers = new Map<string, ObserveMs>()
  const failures = meter.counter(
    'sallyport_database_errors_total',
    'Statements that failed, by kind: statement (refused by the server), timeout or connection.',
    'kind',
  )
  for (const kind of ['statement', 'timeout', 'connection']) failures(kind)
  return {
    observeQuery: (statement, ms) => {
      let observe = observers.get(statement)
      if (!observe) {
        observe = durations.bind({ statement })
        observers.set(statement, observe)
      }
      observe(ms)
    },
    countQueryFailure: (kind) => {
      failures(kind).count += 1
    },
    watchStandby: createStandbyGauges(meter),
    watchPool: createPoolGauges(meter),
  }
}

function createStandbyGauges({ watchFlag, collect }: Meter): DatabaseMetrics['watchStandby'] {
  const watchStandby = watchFlag(
    'sallyport_database_standby',
    'Whether the last response came from a PostgreSQL standby, which is read-only.',
    false,
  )
  let readLagMs: () => number | undefined = () => undefined
  collect(
    'sallyport_database_standby_lag_seconds',
    'Replication lag of the last standby that responded; beyond a second it gets no queries.',
    [],
    (gauge) => {
      const lagMs = readLagMs()
      gauge.remove()
      if (lagMs !== undefined) gauge.set(lagMs / 1_000)
    },
  )
  return (isStandby, lagMs) => {
    watchStandby(() => isStandby() === true)
    readLagMs = lagMs
  }
}

function createPoolGauges({ collect, gauge, watch }: Meter): DatabaseMetrics['watchPool'] {
  let readPool: (() => PoolCounts) | undefined
  collect(
    'sallyport_database_connections',
    'PostgreSQL connections of the pool, by state: busy or idle.',
    ['state'],
    (connections) => {
      if (!readPool) return
      const { open, idle } = readPool()
      connections.set({ state: 'busy' }, open - idle)
      connections.set({ state: 'idle' }, idle)
    },
  )
  const most = gauge('sallyport_database_connections_limit', 'Limit of PostgreSQL connections in the pool.')
  const watchWaiting = watch('sallyport_database_waiting', 'Statements waiting for a connection of the pool.')
  return (read, limit) => {
    readPool = read
    most.set(limit)
    watchWaiting(() => read().waiting)
  }
}
