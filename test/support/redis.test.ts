import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { callRaw } from './client.ts'
import { openRawClient, until } from './gateway.ts'
import { startRedis, testRedis, testRedisServer } from './redis.ts'
import { type RedisServer, startRedisServer } from './redis-server.ts'

/** A client that neither waits nor tries again. */
async function ask<Answer>(url: string, question: (redis: Redis) => Promise<Answer>): Promise<Answer> {
  const redis = new Redis(url, {
    lazyConnect: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    connectTimeout: 1_000,
    commandTimeout: 1_000,
  })
  redis.on('error', () => undefined)
  try {
    await redis.connect()
    return await question(redis)
  } finally {
    redis.disconnect()
  }
}

const ping = ({ url }: Readonly<{ url: string }>): Promise<string> => ask(url, (redis) => redis.ping())

testRedis(t, 'a Redis answers, the test’s own or the one that is named', async (t) => {
  const redis = await startRedis(t)
  t.equal(redis.isOwn, !process.env.REDIS_URL)
  t.equal(await ping(redis), 'PONG')
})

testRedisServer(t, 'a Redis of the tests wants its password, and keeps nothing', async (t) => {
  const redis = await startRedisServer(t)
  t.match(await callRaw(redis.url, 'PING\r\n', 100), /^-NOAUTH/)
  await ask(redis.url, (client) => client.set('word', 'here'))
  await redis.flush()
  t.equal(await ask(redis.url, (client) => client.get('word')), null, 'flushed')
  await ask(redis.url, (client) => client.set('word', 'here'))
  await redis.restart()
  t.equal(await ask(redis.url, (client) => client.get('word')), null, 'restarted')
})

testRedisServer(t, 'a Redis of the tests freezes, thaws, dies and comes back on its port', async (t) => {
  const redis = await startRedisServer(t)
  const { url } = redis
  redis.freeze()
  const client = await openRawClient(t, url)
  client.send('PING\r\n')
  await new Promise((resolve) => setTimeout(resolve, 100))
  t.equal(client.text(), '', 'silence')
  redis.thaw()
  await client.until(/NOAUTH/)
  await redis.kill()
  t.equal(redis.pid(), undefined)
  await t.rejects(ping(redis), 'nobody')
  await redis.restart()
  t.same([redis.url, await ping(redis)], [url, 'PONG'])
})

testRedisServer(t, 'a Redis of the tests ends with its owner, frozen or not', async (t) => {
  const servers: RedisServer[] = []
  await t.test('the owner', async (t: Test) => {
    servers.push(await startRedisServer(t), await startRedisServer(t))
    servers[0]?.freeze()
  })
  t.same(
    servers.map((server) => server.pid()),
    [undefined, undefined],
  )
})

testRedisServer(t, 'a Redis of the tests ends with a process that is killed and runs no teardown', async (t) => {
  const script = fileURLToPath(new URL('redis-owner.ts', import.meta.url))
  const owner = spawn(process.execPath, [...process.execArgv, script], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = await once(owner.stdout, 'data')
  const pid = Number(line)
  t.ok(isAlive(pid))
  owner.kill('SIGKILL')
  await until(() => !isAlive(pid), 'its end')
})

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
