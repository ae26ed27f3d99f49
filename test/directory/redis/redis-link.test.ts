import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import type { Change } from '../../../gateway/directory/change.ts'
import type { RedisServers } from '../../../gateway/directory/redis/clients.ts'
import { linkRedis, type RedisSettings } from '../../../gateway/directory/redis/redis-link.ts'
import type { RateLimit } from '../../../gateway/policy/rate-limit.ts'
import { countInRedis } from '../../../gateway/stages/limit/count-in-redis.ts'
import { until } from '../../support/gateway.ts'
import { testRedisServer } from '../../support/redis.ts'
import {
  type RedisServer,
  startRedisCluster,
  startRedisSentinel,
  startRedisServer,
} from '../../support/redis-server.ts'

const monotonicMs = (): number => performance.now()
const limit: RateLimit = { name: 'test', requests: 1_000_000, seconds: 3_600, by: 'route', onError: 'allow' }

/** A link, and everything that it says. */
function follow(t: Test, servers: RedisServers & Partial<RedisSettings>) {
  const heard: Change[] = []
  const told: string[] = []
  const causes: string[] = []
  const link = linkRedis(
    {
      ...servers,
      monotonicMs,
      onRefused: (command, cause) => void told.push(`${command} refused: ${cause}`),
      onTaken: (command) => void told.push(`${command} taken`),
    },
    {
      onChange: (change) => void heard.push(change),
      onConnected: () => undefined,
      onSynced: () => undefined,
      onUnreadable: () => undefined,
      onLost: (error) => void causes.push(String(error)),
    },
  )
  t.teardown(() => link.stop())
  const countOnce = countInRedis((run) => link.use('count', run))
  const count = async (owner: string): ReturnType<typeof countOnce> => {
    for (;;)
      try {
        return await countOnce(limit, owner)
      } catch (error) {
        // A busy machine may be slower than the link is patient; that says nothing about Redis.
        if (!String(error).includes('Command timed out')) throw error
      }
  }
  return { ...link, heard, told, causes, count }
}

/** A backend's connection. */
function connectRedis(t: Test, url: string): Redis {
  const redis = new Redis(url)
  redis.on('error', () => {})
  t.teardown(() => redis.disconnect())
  return redis
}

const hostOf = ({ url }: RedisServer): string => new URL(url).host

/** The rights that docs/guides/replicas.md names. */
const least =
  'ACL SETUSER least on >secret ~sallyport:* &sallyport:* -@all +ping +role +subscribe +publish +get +eval +evalsha +set +incrby +pttl +expire'

const asLeast = ({ url }: RedisServer): string => url.replace(/redis:\/\/:[^@]*@/, 'redis://least:secret@')

/** A user that may do all that the gateway needs, but for what is said. */
const restrict = (...rules: readonly string[]): string =>
  ['ACL SETUSER limited on >secret ~sallyport:* &sallyport:* +@all', ...rules].join(' ')

const asLimited = ({ url }: RedisServer): string => url.replace(/redis:\/\/:[^@]*@/, 'redis://limited:secret@')

testRedisServer(t, 'the documented rights in Redis are enough', async (t) => {
  const redis = await startRedisServer(t)
  await redis.tell(least)
  const { isUp, told, count, announce, heard, read } = follow(t, { url: asLeast(redis) })
  await until(isUp, 'the link')
  t.equal((await count('one')).used, 1)
  announce({ kind: 'user', id: 7 })
  await until(() => heard.length > 0, 'the change')
  t.equal(await read('sallyport:cluster:1:heartbeat'), undefined)
  t.same(told, [])
})

testRedisServer(t, 'a refusal of Redis is logged once with its cause, and once when it is over', async (t) => {
  const redis = await startRedisServer(t)
  await redis.tell(restrict())
  const { isUp, isRefused, told, causes, count } = follow(t, { url: asLimited(redis) })
  await until(isUp, 'the link')
  const refuse = async (cause: string, begin: string, end: string): Promise<void> => {
    told.length = 0
    await redis.tell(begin)
    for (let time = 0; time < 5; time += 1) await t.rejects(count('one'))
    t.ok(isRefused('count'))
    t.ok(isUp(), 'changes are heard all the same')
    await redis.tell(end)
    await until(
      async () => {
        await count('one')
        return !isRefused('count')
      },
      'the end',
      20_000,
    )
    t.same(told, [`count refused: ${cause}`, 'count taken'])
  }
  await refuse('NOPERM', restrict('-eval -evalsha'), restrict())
  await refuse('OOM', 'CONFIG SET maxmemory 1', 'CONFIG SET maxmemory 0')
  await refuse('NOREPLICAS', 'CONFIG SET min-replicas-to-write 3', 'CONFIG SET min-replicas-to-write 0')
  t.same(causes, [])
})

testRedisServer(t, 'a flush of scripts, and of everything, costs no count', async (t) => {
  const redis = await startRedisServer(t)
  const { isUp, told, count } = follow(t, { url: redis.url })
  await until(isUp, 'the link')
  t.equal((await count('one')).used, 1)
  await redis.tell('SCRIPT FLUSH')
  t.equal((await count('one')).used, 2)
  await redis.flush()
  t.equal((await count('one')).used, 1)
  t.same(told, [])
})

testRedisServer(t, 'a source that takes no changes is not up, and makes up for them as soon as it does', async (t) => {
  const redis = await startRedisServer(t)
  await redis.tell(restrict('-publish'))
  const { isUp, told, announce } = follow(t, { url: asLimited(redis) })
  await until(isUp, 'the link')
  const other = follow(t, { url: redis.url })
  await until(other.isUp, 'the other link')
  announce({ kind: 'user', id: 7 })
  await until(() => !isUp(), 'the refusal')
  t.same(told, ['publish refused: NOPERM'])
  t.same(other.heard, [])
  await redis.tell(restrict('+publish'))
  await until(() => other.heard.length > 0, 'what makes up for it')
  t.same(other.heard, [{ kind: 'everything' }])
  await until(isUp, 'the source')
  t.same(told, ['publish refused: NOPERM', 'publish taken'])
})

testRedisServer(t, 'a server that became a replica is left, and a replica does not count as a source', async (t) => {
  const [redis, primary] = [await startRedisServer(t), await startRedisServer(t)]
  const { isUp, causes } = follow(t, { url: redis.url })
  await until(isUp, 'the link')
  await redis.tell(`REPLICAOF 127.0.0.1 ${new URL(primary.url).port}`)
  await until(() => !isUp() && causes.length > 0, 'the loss')
  t.same(causes, ['Error: the Redis server is a replica'])
  await sleep(1_500)
  t.equal(causes.length, 1, 'told once')
  t.notOk(isUp())
  await redis.tell('REPLICAOF NO ONE')
  await until(isUp, 'the link again')
})

testRedisServer(t, 'the logged cause of a failure holds no name of a user and no key', async (t) => {
  const redis = await startRedisServer(t)
  await redis.tell(restrict('-subscribe'))
  const { causes } = follow(t, { url: asLimited(redis) })
  await until(() => causes.length > 0, 'the cause')
  t.same(causes, ['Error: Redis cannot be used: NOPERM'])
})

testRedisServer(t, 'if Redis alone is believed, it must say that it is the primary', async (t) => {
  const redis = await startRedisServer(t)
  await redis.tell(restrict('-role'))
  const lenient = follow(t, { url: asLimited(redis) })
  await until(lenient.isUp, 'the link')
  const { isUp, causes } = follow(t, { url: asLimited(redis), allWritersPublish: true })
  await until(() => causes.length > 0, 'the cause')
  t.same(causes, ['Error: Redis cannot be used: NOPERM'])
  t.notOk(isUp())
})

testRedisServer(t, 'sentinels: the current primary is found, also after it died', async (t) => {
  const primary = await startRedisServer(t)
  const password = new URL(primary.url).password
  const replica = await startRedisServer(t, { password })
  await replica.tell(`REPLICAOF 127.0.0.1 ${new URL(primary.url).port}`)
  const ports: number[] = []
  for (let index = 0; index < 3; index += 1) ports.push(await startRedisSentinel(t, primary, 'main'))
  // Nothing is at the host of the URL.
  const url = `redis://:${password}@127.0.0.1:1`
  const nodes = ['127.0.0.1:1', ...ports.map((port) => `127.0.0.1:${port}`)]
  const link = follow(t, { url, sentinels: { name: 'main', nodes, password, tls: false } })
  await until(link.isUp, 'the link', 15_000)
  t.equal((await link.count('one')).used, 1)
  const asked = async (words: string): Promise<boolean> => {
    const sentinel = new Redis(ports[0] ?? 0, '127.0.0.1', { password })
    try {
      return JSON.stringify(await sentinel.call('SENTINEL', 'MASTER', 'main')).includes(words)
    } finally {
      sentinel.disconnect()
    }
  }
  await until(() => asked('"num-slaves","1","num-other-sentinels","2"'), 'the sentinels’ acquaintance', 15_000)
  await primary.kill()
  await until(() => !link.isUp(), 'the loss')
  await until(link.isUp, 'the new primary', 30_000)
  t.equal((await link.count('two')).used, 1)
  const writer = connectRedis(t, replica.url)
  await writer.publish('sallyport:changes', '{"kind":"user","id":7}')
  await until(() => link.heard.length > 0, 'a change')
  t.same(link.heard, [{ kind: 'user', id: 7 }])
})

testRedisServer(t, 'sentinels that do not answer are named as the cause', async (t) => {
  const sentinels = { name: 'main', nodes: ['127.0.0.1:1'], tls: false }
  const { causes } = follow(t, { url: 'redis://:x@127.0.0.1:1', sentinels })
  await until(() => causes.length > 0, 'the cause')
  t.match(causes[0], /sentinels are unreachable/)
})

testRedisServer(t, 'a cluster: counts, keys and changes, whichever node has them', async (t) => {
  const servers = await startRedisCluster(t, 3)
  const [first, second, third] = servers
  if (!first || !second || !third) throw new Error('there are three')
  for (const server of servers) await server.tell(`${least} +cluster|slots +asking`)
  const link = follow(t, { url: asLeast(first), cluster: { nodes: [hostOf(second)] } })
  await until(link.isUp, 'the link', 20_000)
  for (let owner = 0; owner < 60; owner += 1) {
    t.equal((await link.count(`o${owner}`)).used, 1)
    t.equal((await link.count(`o${owner}`)).used, 2)
  }
  for (const [id, server] of servers.entries()) {
    link.heard.length = 0
    const node = connectRedis(t, server.url)
    t.ok((await node.keys('sallyport:rate:*')).length > 0, 'budgets spread over all nodes')
    await node.publish('sallyport:changes', JSON.stringify({ kind: 'user', id }))
    await until(() => link.heard.length > 0, `a change at node ${id}`)
    t.same(link.heard, [{ kind: 'user', id }])
  }
  link.heard.length = 0
  link.announce({ kind: 'token', id: 9 })
  await until(() => link.heard.length > 0, 'a change of our own')
  for (let id = 1; id <= 9; id += 1) t.equal(await link.read(`sallyport:cluster:${id}:heartbeat`), undefined)
  t.same(link.told, [])

  // A slot that another node has by now (MOVED).
  await third.kill()
  await until(
    async () => {
      const outcomes = await Promise.allSettled(Array.from({ length: 30 }, (_, owner) => link.count(`o${owner}`)))
      return outcomes.some(({ status }) => status === 'rejected') && link.isRefused('count')
    },
    'what the third had',
    20_000,
  )
  t.equal(link.told.filter((line) => line.startsWith('count refused')).length, 1, link.told.join())
  await third.restart()
  await third.tell(`${least} +cluster|slots +asking`)
  await until(
    async () => {
      const outcomes = await Promise.allSettled(Array.from({ length: 30 }, (_, owner) => link.count(`p${owner}`)))
      return link.isUp() && outcomes.every(({ status }) => status === 'fulfilled')
    },
    'all of them again',
    20_000,
  )
})

testRedisServer(t, 'a node of a cluster that is taken for a server of its own: MOVED is told', async (t) => {
  const [first] = await startRedisCluster(t, 3)
  if (!first) throw new Error('there are three')
  const { isUp, told, count } = follow(t, { url: first.url })
  await until(isUp, 'the link')
  await until(async () => {
    await Promise.allSettled(Array.from({ length: 20 }, (_, owner) => count(`o${owner}`)))
    return told.length > 0
  }, 'the refusal')
  await Promise.allSettled(Array.from({ length: 50 }, (_, owner) => count(`q${owner}`)))
  t.equal(told.length, 1, 'once, though some keys are there')
  t.match(told[0], /^count refused: (MOVED|CLUSTERDOWN)$/)
})
