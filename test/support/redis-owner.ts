// A program that starts a Redis, says its process id, and waits to be killed.
import { startRedisServer } from './redis-server.ts'

const redis = await startRedisServer({ teardown: () => undefined })
process.stdout.write(`${redis.pid()}\n`)
setInterval(() => undefined, 60_000)
