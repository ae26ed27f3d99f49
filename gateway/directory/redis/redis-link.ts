import { randomUUID } from 'node:crypto'
import { Cluster, type Redis } from 'ioredis'
import { guarded } from '../../fault/guarded.ts'
import { type Change, type ChangeHandlers, type ChangeSource, formatChange, parseChange } from '../change.ts'
import { type LinkEvents, type ListeningConnection, maintainConnection } from '../maintain-connection.ts'
import { type Clients, commandTimeoutMs, openClients, type RedisServers } from './clients.ts'
import {
  createRefusals,
  type RefusableCommand,
  type RefusalHandlers,
  type Refusals,
  readCode,
  withoutServerWords,
} from './refusals.ts'

/** Where backends may publish what they changed, and where we do. */
const channel = 'sallyport:changes'

/** A heartbeat that no cluster has: whether Redis answers shows by it. */
const probeKey = 'sallyport:cluster:0:heartbeat'

/** Time for all of a connection: sentinels and nodes are asked one after the other. */
const connectMs = 5_000

/** A node that hears nothing of what is published at the others for so long is cut off from its cluster. */
const unheardMs = 3_000

/** Runs a command on the connection; rejects while there is none, and after 200 ms. */
export type UseRedis = <Result>(
  command: RefusableCommand,
  run: (client: Redis | Cluster) => Promise<Result>,
) => Promise<Result>

export type RedisLink = ChangeSource &
  Readonly<{
    /** Tells the other replicas; one that was not taken is made up for by `everything` as soon as Redis takes it. */
    announce: (change: Change) => void
    /** The value of a key; undefined when it is not there, or Redis cannot be asked at once. */
    read: (key: string) => Promise<string | undefined>
    use: UseRedis
    /** Whether a command is refused by a Redis that can be reached. */
    isRefused: (command: RefusableCommand) => boolean
  }>

export type RedisSettings = RedisServers &
  Readonly<{
    /** Whether the caches follow Redis alone: a server that does not say that it is a primary is not listened to. */
    allWritersPublish?: boolean
    monotonicMs: () => number
    /** Told of every command of ours that ended. */
    onCommand?: (command: RefusableCommand, ms: number, isGood: boolean) => void
  }> &
  Partial<RefusalHandlers>

/** Hears and tells changes by Redis, and reads from it; it may be down at any time, and nobody waits for it. */
export function linkRedis(settings: RedisSettings, handlers: ChangeHandlers): RedisLink {
  const { monotonicMs, onRefused = () => undefined, onTaken = () => undefined } = settings
  const refusals = createRefusals(monotonicMs, { onRefused, onTaken })
  const current: CurrentConnection = { talker: undefined, onBroken: () => undefined }
  const use = createUse(settings, refusals, current)
  /** Whether a change of ours was not published. */
  let isOwing = false

  const publish = (change: Change): Promise<void> =>
    use('publish', (client) => client.publish(channel, formatChange(change))).then(
      () => undefined,
      () => {
        isOwing = true
      },
    )
  const get = (key: string): Promise<string | undefined> =>
    use('get', (client) => client.get(key)).then(
      (value) => value ?? undefined,
      () => undefined,
    )
  /** Tries again, on a connection that was just proved, what Redis refused before. */
  const retry = async (): Promise<void> => {
    refusals.review()
    if (refusals.isRefused('get')) await get(probeKey)
    if (!isOwing) return
    isOwing = false
    await publish({ kind: 'everything' })
  }
  const connect = async (events: LinkEvents): Promise<ListeningConnection> => {
    const { prove, close } = await openSubscription({ settings, handlers, refusals }, current, events)
    const probe = async (): Promise<void> => {
      await prove()
      await retry()
    }
    return { probe, close }
  }
  const link = maintainConnection(connect, { handlers, monotonicMs })
  return {
    name: 'redis',
    ...link,
    isUp: () => link.isUp() && !refusals.isRefused('publish'),
    announce: (change) => void publish(change),
    read: async (key) => (link.isUp() ? get(key) : undefined),
    use,
    isRefused: refusals.isRefused,
  }
}

/** The client for commands while there is a connection, and how to end that connection. */
type CurrentConnection = { talker: Redis | Cluster | undefined; onBroken: LinkEvents['onBroken'] }

const createUse =
  ({ monotonicMs, onCommand }: RedisSettings, refusals: Refusals, current: CurrentConnection): UseRedis =>
  async (command, run) => {
    if (!current.talker) throw new Error('there is no connection to Redis')
    const startedMs = monotonicMs()
    try {
      const result = await within(commandTimeoutMs, run(current.talker))
      onCommand?.(command, monotonicMs() - startedMs, true)
      refusals.noteGood(command)
      return result
    } catch (error) {
      onCommand?.(command, monotonicMs() - startedMs, false)
      if (current.talker) refusals.noteFailure(command, error)
      // The primary of before: another connection may find the one of now.
      if (readCode(error) === 'READONLY') current.onBroken(withoutServerWords(error))
      throw error
    }
  }

type Subscriber = Readonly<{ settings: RedisSettings; handlers: ChangeHandlers; refusals: Refusals }>

/** Proves that whatever was published before has been heard. */
type Prove = () => Promise<void>

/** Connects, subscribes, and makes this the current connection; what fails on the way leaves no client behind. */
async function openSubscription(
  subscriber: Subscriber,
  current: CurrentConnection,
  events: LinkEvents,
): Promise<Readonly<{ prove: Prove; close: () => void }>> {
  const made: (Redis | Cluster)[] = []
  let isClosed = false
  const close = (): void => {
    isClosed = true
    current.talker = undefined
    for (const client of made) client.disconnect()
  }
  const onMade = (client: Redis | Cluster): void => {
    if (isClosed) client.disconnect()
    else made.push(client)
  }
  try {
    const open = async (): Promise<Clients & Readonly<{ prove: Prove }>> => {
      const clients = await openClients(subscriber.settings, { onMade, onBroken: events.onBroken })
      return { ...clients, prove: await subscribe(subscriber, clients, events) }
    }
    const { talker, prove } = await within(connectMs, open())
    current.talker = talker
    current.onBroken = events.onBroken
    return { prove, close }
  } catch (error) {
    close()
    throw withoutServerWords(error)
  }
}

async function subscribe(
  { settings, handlers, refusals }: Subscriber,
  { listener, talker }: Clients,
  events: LinkEvents,
): Promise<Prove> {
  const { monotonicMs, allWritersPublish } = settings
  const marks = `sallyport:probe:${randomUUID()}`
  let heardAtMs = monotonicMs()
  // A change that was not taken is as if it had not been heard.
  const lost = (): void => events.onBroken(new Error('a change could not be taken'))
  const take = (from: string, message: string): void => {
    if (from === channel) handlers.onChange(parseChange(message))
    else if (from === marks) heardAtMs = monotonicMs()
  }
  listener.on('message', guarded('directory', take, lost))
  if (!(talker instanceof Cluster)) {
    await requirePrimary(listener, allWritersPublish)
    await requireLoaded(talker)
    await listener.subscribe(channel)
    // What was published before the question stands before its answer, where both are asked of one server.
    return async () => void (await Promise.all([listener.ping(), requirePrimary(talker, allWritersPublish)]))
  }
  await listener.subscribe(channel, marks)
  return async () => {
    // From any node to that of the listener, on the way that changes take. One that is down may be asked at times.
    talker.publish(marks, '').then(
      () => refusals.noteGood('publish'),
      (error: unknown) => refusals.noteFailure('publish', error),
    )
    await listener.ping()
    if (monotonicMs() - heardAtMs > unheardMs) throw new Error('the Redis cluster does not pass on what is published')
  }
}

/** Rejects where the server is a replica: changes that are published there reach nobody else, and it takes no counts. */
async function requirePrimary(client: Redis, mustTell = false): Promise<void> {
  try {
    const [role] = (await client.role()) as readonly unknown[]
    if (role === 'master') return
    throw new Error(`the Redis server is a ${role === 'sentinel' ? 'sentinel: name it in redis.sentinels' : 'replica'}`)
  } catch (error) {
    const isForbidden = ['NOPERM', 'ERR'].includes(readCode(error) ?? '')
    if (!isForbidden || mustTell) throw error
    await client.ping()
  }
}

/** Rejects while the server reads what it keeps from its disk; what else it refuses shows with the commands. */
async function requireLoaded(client: Redis): Promise<void> {
  await client.get(probeKey).catch((error: unknown) => {
    if (readCode(error) === 'LOADING') throw error
  })
}

async function within<Result>(ms: number, work: Promise<Result>): Promise<Result> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('no answer in time')), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
