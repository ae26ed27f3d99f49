// A program that starts a Redis server, prints its process id, and waits until the test kills it.
import { startRedisServer } from './redis-server.ts'

const redis = await startRedisServer({ teardown: () => undefined })
process.stdout.write(`${redis.pid()}\n`)
setInterval(() => undefined, 60_000)
