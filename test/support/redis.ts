import type { Test } from 'tap'
import { testUnlessLacking } from './lacks.ts'
import type { Owner } from './owner.ts'
import { hasRedisServer, type RedisServer, startRedisServer } from './redis-server.ts'

/** A Redis to test against. One that is not our own is shared: keys want a prefix of the test's, and it stays up. */
export type TestRedis = RedisServer | Readonly<{ url: string; isOwn: false }>

/** The Redis at `REDIS_URL`, else one of our own. */
export async function startRedis(owner: Owner): Promise<TestRedis> {
  const url = process.env.REDIS_URL
  return url ? { url, isOwn: false } : startRedisServer(owner)
}

/** The reason to skip, or undefined with a Redis. */
export const findRedisLack = (): string | undefined =>
  process.env.REDIS_URL || hasRedisServer() ? undefined : 'there is neither REDIS_URL nor a redis-server on PATH'

/** The reason why the tests cannot start a Redis; undefined where they can. */
export const findRedisServerLack = (): string | undefined =>
  hasRedisServer() ? undefined : 'there is no redis-server on PATH to freeze and to kill'

type Run = (t: Test) => Promise<unknown>

/** A test, or a block of them, that calls `startRedis`. Without any Redis it is skipped; `REQUIRE_REDIS=1` forbids it. */
export const testRedis = (t: Test, name: string, run: Run): void =>
  testUnlessLacking(t, name, run, findRedisLack(), 'REQUIRE_REDIS')

/** A test, or a block of them, that calls `startRedisServer`: a shared Redis is not enough. */
export const testRedisServer = (t: Test, name: string, run: Run): void =>
  testUnlessLacking(t, name, run, findRedisServerLack(), 'REQUIRE_REDIS')
