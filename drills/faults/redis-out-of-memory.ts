import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../../test/support/gateway.ts'
import { findRedisServerLack } from '../../test/support/redis.ts'
import { copyPolicies } from '../copy-policies.ts'
import type { Drill } from '../drill.ts'

/** A limit, which no load of a drill spends, on the first public route. */
function limitRequests(file: string): void {
  const text = readFileSync(file, 'utf8').replace(/^( +)access: public\n/m, '$&$1rateLimit: drill\n')
  writeFileSync(file, `${text}\nrateLimits: { drill: { requests: 1000000, seconds: 60, by: route } }\n`)
}

export const drill: Drill = {
  about: 'Redis answers, and refuses every write: it is out of memory',
  cells: [
    ['Redis', 'refuses'],
    ['Redis', 'full'],
  ],
  alerts: ['SallyportRedisRefusing', 'SallyportRateLimitsUncounted'],
  findLack: findRedisServerLack,
  prepare: (fixture) => {
    const directory = copyPolicies(fixture)
    limitRequests(join(directory, 'platform.yaml'))
    return { settings: { policies: { directory } } }
  },
  begin: ({ redis }) => redis.tell('CONFIG SET maxmemory 1'),
  end: ({ redis }) => redis.tell('CONFIG SET maxmemory 0'),
  lookDuring: async ({ metric, gateway }) => {
    const uncounted = await metric('sallyport_rate_limit_errors_total')
    const refusing = await metric('sallyport_redis_refusing')
    const up = await metric('sallyport_invalidation_source_up')
    const countLines = (): number => gateway().readLog().split('"redis command refused"').length - 1
    // A line is a little behind what it tells of; without one the finding says so.
    await until(() => countLines() > 0, 'the line').catch(() => undefined)
    const lines = countLines()
    return [
      { check: 'requests that pass uncounted', seen: `${uncounted}`, limit: '> 0', isMet: uncounted > 0 },
      { check: 'commands that Redis refuses', seen: `${refusing}`, limit: '1', isMet: refusing === 1 },
      { check: 'log lines that tell of it', seen: `${lines}`, limit: '1', isMet: lines === 1 },
      { check: 'sources of changes that are up', seen: `${up}`, limit: '2', isMet: up === 2 },
    ]
  },
}
