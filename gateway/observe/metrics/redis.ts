import type { ObserveMs } from './bound-histogram.ts'
import type { Meter } from './meter.ts'

export type RedisCommand = (typeof commands)[number]

const commands = ['get', 'publish', 'count'] as const

export type RedisMetrics = Readonly<{
  observeRedis: (command: RedisCommand, ms: number, isGood: boolean) => void
  watchRedisRefusals: (isRefused: (command: RedisCommand) => boolean) => void
}>

const buckets = [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2]

export function createRedisMetrics({ counter, histogram, collect }: Meter): RedisMetrics {
  const durations = histogram(
    'sallyport_redis_command_duration_seconds',
    'Duration of Redis commands, including failed ones.',
    buckets,
  )
  const failures = counter('sallyport_redis_errors_total', 'Redis commands that failed or timed out.', 'command')
  for (const command of commands) failures(command)
  let isRefused: ((command: RedisCommand) => boolean) | undefined
  collect(
    'sallyport_redis_refusing',
    'Whether a reachable Redis refuses a command or times out.',
    ['command'],
    (gauge) => {
      if (isRefused) for (const command of commands) gauge.set({ command }, isRefused(command) ? 1 : 0)
    },
  )
  const observers: Readonly<Record<RedisCommand, ObserveMs>> = {
    get: durations.bind({ command: 'get' }),
    publish: durations.bind({ command: 'publish' }),
    count: durations.bind({ command: 'count' }),
  }
  return {
    observeRedis: (command, ms, isGood) => {
      observers[command](ms)
      if (!isGood) failures(command).count += 1
    },
    watchRedisRefusals: (watched) => {
      isRefused = watched
    },
  }
}
