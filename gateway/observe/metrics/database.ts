import { Counter, Gauge, type Registry } from 'prom-client'
import { createBoundHistogram, type ObserveMs } from './bound-histogram.ts'

export type PoolCounts = Readonly<{ open: number; idle: number; waiting: number }>

export type DatabaseMetrics = Readonly<{
  observeQuery: (statement: string, ms: number) => void
  countQueryFailure: (kind: 'statement' | 'timeout' | 'connection') => void
  watchStandby: (isStandby: () => boolean | undefined, lagMs: () => number | undefined) => void
  watchPool: (read: () => PoolCounts, limit: number) => void
}>

const buckets = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2]

export function createDatabaseMetrics(registers: Registry[]): DatabaseMetrics {
  const durations = createBoundHistogram({
    name: 'sallyport_database_query_duration_seconds',
    help: 'Duration of each statement, by name, including the wait for a connection.',
    buckets,
    registers,
  })
  const observers = new Map<string, ObserveMs>()
  const failures = new Counter({
    name: 'sallyport_database_errors_total',
    help: 'Statements that failed, by kind: statement (refused by the server), timeout or connection.',
    labelNames: ['kind'],
    registers,
  })
  // Prometheus sees no increase in a series that first appears with 1.
  for (const kind of ['statement', 'timeout', 'connection']) failures.inc({ kind }, 0)
  return {
    observeQuery: (statement, ms) => {
      let observe = observers.get(statement)
      if (!observe) {
        observe = durations.bind({ statement })
        observers.set(statement, observe)
      }
      observe(ms)
    },
    countQueryFailure: (kind) => failures.inc({ kind }),
    watchStandby: createStandbyGauges(registers),
    watchPool: createPoolGauges(registers),
  }
}

function createStandbyGauges(registers: Registry[]): DatabaseMetrics['watchStandby'] {
  let standby: Readonly<{ is: () => boolean | undefined; lagMs: () => number | undefined }> | undefined
  new Gauge({
    name: 'sallyport_database_standby',
    help: 'Whether the last response came from a PostgreSQL standby, which is read-only.',
    registers,
    collect() {
      this.set(standby?.is() ? 1 : 0)
    },
  })
  new Gauge({
    name: 'sallyport_database_standby_lag_seconds',
    help: 'Replication lag of the last standby that responded; beyond a second it gets no queries.',
    registers,
    collect() {
      const lagMs = standby?.lagMs()
      this.remove()
      if (lagMs !== undefined) this.set(lagMs / 1_000)
    },
  })
  return (is, lagMs) => {
    standby = { is, lagMs }
  }
}

function createPoolGauges(registers: Registry[]): DatabaseMetrics['watchPool'] {
  let pool: Readonly<{ read: () => PoolCounts; limit: number }> | undefined
  new Gauge({
    name: 'sallyport_database_connections',
    help: 'PostgreSQL connections of the pool, by state: busy or idle.',
    labelNames: ['state'],
    registers,
    collect() {
      if (!pool) return
      const { open, idle } = pool.read()
      this.set({ state: 'busy' }, open - idle)
      this.set({ state: 'idle' }, idle)
    },
  })
  new Gauge({
    name: 'sallyport_database_connections_limit',
    help: 'Limit of PostgreSQL connections in the pool.',
    registers,
    collect() {
      this.set(pool?.limit ?? 0)
    },
  })
  new Gauge({
    name: 'sallyport_database_waiting',
    help: 'Statements waiting for a connection of the pool.',
    registers,
    collect() {
      this.set(pool?.read().waiting ?? 0)
    },
  })
  return (read, limit) => {
    pool = { read, limit }
  }
}
