import { Redis } from 'ioredis'
import { type Change, type ChangeHandlers, type ChangeSource, formatChange, parseChange } from '../change.ts'
import { answerTimeoutMs, keepConnected, type Link, type LinkEvents } from '../keep-connected.ts'

/** Where backends may publish what they changed, and where we do. */
const channel = 'sallyport:changes'

const connectTimeoutMs = 1_000

/** Past this the answer is of no use to a request. */
const commandTimeoutMs = 200

export type RedisLink = ChangeSource &
  Readonly<{
    /** Tells the other replicas; lost when there is no connection, since each has other ways to know. */
    announce: (change: Change) => void
    /** The value of a key; undefined when it is not there, or Redis cannot be asked at once. */
    read: (key: string) => Promise<string | undefined>
    /** The connection that commands go by; undefined while there is none. */
    connection: () => object | undefined
  }>

export type RedisSettings = Readonly<{
  url: string
  monotonicMs: () => number
  /** Told of every command of ours that ended. */
  onCommand?: (command: 'get' | 'publish', ms: number, isGood: boolean) => void
}>

/** Hears and tells changes by Redis, and reads from it; it may be down at any time, and nobody waits for it. */
export function linkRedis(settings: RedisSettings, handlers: ChangeHandlers): RedisLink {
  const { url, monotonicMs, onCommand } = settings
  let commands: Redis | undefined
  const connect = async (events: LinkEvents): Promise<Link> => {
    // One that listens may not publish.
    const pair = [createClient(url, answerTimeoutMs, events), createClient(url, commandTimeoutMs, events)] as const
    const close = (): void => {
      commands = undefined
      for (const client of pair) client.disconnect()
    }
    const [listener, talker] = pair
    try {
      await Promise.all([listener.connect(), talker.connect()])
      listener.on('message', (from: string, message: string) => {
        if (from === channel) handlers.onChange(parseChange(message))
      })
      await listener.subscribe(channel)
    } catch (error) {
      close()
      throw error
    }
    commands = talker
    // What was published before the question stands before its answer.
    return { probe: async () => void (await Promise.all([listener.ping(), talker.ping()])), close }
  }
  const link = keepConnected(connect, { handlers, monotonicMs })
  const quietly = async <Result>(command: 'get' | 'publish', run: (client: Redis) => Promise<Result>) => {
    if (!commands) return undefined
    const startedMs = monotonicMs()
    try {
      const result = await run(commands)
      onCommand?.(command, monotonicMs() - startedMs, true)
      return result
    } catch {
      // The probes notice what is wrong, and tell it once.
      onCommand?.(command, monotonicMs() - startedMs, false)
      return undefined
    }
  }
  return {
    name: 'redis',
    ...link,
    announce: (change) => void quietly('publish', (client) => client.publish(channel, formatChange(change))),
    read: async (key) => (link.isUp() ? ((await quietly('get', (client) => client.get(key))) ?? undefined) : undefined),
    connection: () => commands,
  }
}

/** A connection that nobody waits for: it queues nothing, and `keepConnected` makes the next one. */
function createClient(url: string, timeoutMs: number, { onBroken }: LinkEvents): Redis {
  const client = new Redis(url, {
    lazyConnect: true,
    connectTimeout: connectTimeoutMs,
    commandTimeout: timeoutMs,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 1,
    autoResubscribe: false,
    retryStrategy: null,
    connectionName: 'sallyport',
  })
  client.on('error', onBroken)
  client.on('end', () => onBroken(new Error('the connection to Redis ended')))
  return client
}
