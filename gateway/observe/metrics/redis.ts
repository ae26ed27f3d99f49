import { Counter, Gauge, type Registry } from 'prom-client'
import { createBoundHistogram, type ObserveMs } from './bound-histogram.ts'

export type RedisCommand = (typeof commands)[number]

const commands = ['get', 'publish', 'count'] as const

export type RedisMetrics = Readonly<{
  observeRedis: (command: RedisCommand, ms: number, isGood: boolean) => void
  watchRedisRefusals: (isRefused: (command: RedisCommand) => boolean) => void
}>

const buckets = [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2]

export function createRedisMetrics(registers: Registry[]): RedisMetrics {
  const durations = createBoundHistogram({
    name: 'sallyport_redis_command_duration_seconds',
    help: 'Duration of Redis commands, including failed ones.',
    buckets,
    registers,
  })
  const failures = new Counter({
    name: 'sallyport_redis_errors_total',
    help: 'Redis commands that failed or timed out.',
    labelNames: ['command'],
    registers,
  })
  for (const command of commands) failures.inc({ command }, 0)
  let isRefused: ((command: RedisCommand) => boolean) | undefined
  new Gauge({
    name: 'sallyport_redis_refusing',
    help: 'Whether a reachable Redis refuses a command or times out.',
    labelNames: ['command'],
    registers,
    collect() {
      if (isRefused) for (const command of commands) this.set({ command }, isRefused(command) ? 1 : 0)
    },
  })
  const observers: Readonly<Record<RedisCommand, ObserveMs>> = {
    get: durations.bind({ command: 'get' }),
    publish: durations.bind({ command: 'publish' }),
    count: durations.bind({ command: 'count' }),
  }
  return {
    observeRedis: (command, ms, isGood) => {
      observers[command](ms)
      if (!isGood) failures.inc({ command })
    },
    watchRedisRefusals: (watched) => {
      isRefused = watched
    },
  }
}
