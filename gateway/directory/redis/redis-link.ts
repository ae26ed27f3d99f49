// Redis, which is optional: changes between replicas, heartbeats of clusters and counts of rate limits.
import { randomUUID } from 'node:crypto'
import type { Cluster, Redis } from 'ioredis'
import { guarded } from '../../base/fault/guarded.ts'
import { type Change, type ChangeHandlers, type ChangeSource, formatChange } from '../change.ts'
import { createChangeQueue } from '../change-queue.ts'
import { type LinkEvents, type ListeningConnection, maintainConnection } from '../maintain-connection.ts'
import type { Clients, RedisServers } from './clients.ts'
import {
  createRefusals,
  type RefusableCommand,
  type RefusalHandlers,
  type Refusals,
  readCode,
  withoutServerWords,
} from './refusals.ts'

/** Backends may publish their changes here too, beside the gateway. */
export const changesChannel = 'sallyport:changes'

const probeKey = 'sallyport:cluster:0:heartbeat'

/** Several sentinels or nodes are asked one after the other, a second each. */
const connectMs = 5_000

/** A later result is useless to the request that waits for it. */
const commandTimeoutMs = 200

/** A node that receives nothing from the others for this long is cut off from its cluster. */
const unheardMs = 3_000

export type UseRedis = <Result>(
  command: RefusableCommand,
  run: (client: Redis | Cluster) => Promise<Result>,
) => Promise<Result>

export type RedisLink = ChangeSource &
  Readonly<{
    /** Notifies the other replicas. If Redis refuses a change, `everything` follows as soon as Redis accepts it. */
    announce: (change: Change) => void
    read: (key: string) => Promise<string | undefined>
    use: UseRedis
    isRefused: (command: RefusableCommand) => boolean
  }>

export type RedisSettings = RedisServers &
  Readonly<{
    /** Whether the caches follow Redis alone. Then a server that does not report that it is a primary is refused. */
    allWritersPublish?: boolean
    monotonicMs: () => number
    onCommand?: (command: RefusableCommand, ms: number, isGood: boolean) => void
  }> &
  Partial<RefusalHandlers>

export function linkRedis(settings: RedisSettings, handlers: ChangeHandlers): RedisLink {
  const { monotonicMs, onRefused = () => undefined, onTaken = () => undefined } = settings
  const refusals = createRefusals(monotonicMs, { onRefused, onTaken })
  const current: CurrentConnection = { talker: undefined, onBroken: () => undefined }
  const use = createUse(settings, refusals, current)
  let isOwing = false

  const publish = (change: Change): Promise<void> =>
    use('publish', (client) => client.publish(changesChannel, formatChange(change))).then(
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

type CurrentConnection = { talker: Redis | Cluster | undefined; onBroken: LinkEvents['onBroken'] }

const createUse =
  ({ monotonicMs, onCommand }: RedisSettings, refusals: Refusals, current: CurrentConnection): UseRedis =>
  async (command, run) => {
    if (!current.talker) throw new Error('Redis is not connected')
    const startedMs = monotonicMs()
    try {
      const result = await within(commandTimeoutMs, run(current.talker))
      onCommand?.(command, monotonicMs() - startedMs, true)
      refusals.noteGood(command)
      return result
    } catch (error) {
      onCommand?.(command, monotonicMs() - startedMs, false)
      if (current.talker) refusals.noteFailure(command, error)
      // The server is a former primary; a new connection may find the current one.
      if (readCode(error) === 'READONLY') current.onBroken(withoutServerWords(error))
      throw error
    }
  }

type Subscriber = Readonly<{ settings: RedisSettings; handlers: ChangeHandlers; refusals: Refusals }>

type Prove = () => Promise<void>

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
      const { openClients } = await import('./clients.ts')
      const options = { onMade, onBroken: events.onBroken, commandTimeoutMs }
      const clients = await openClients(subscriber.settings, options)
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
  const lost = (): void => events.onBroken(new Error('a change could not be taken'))
  const changes = createChangeQueue(handlers.onChange, lost, handlers.onUnreadable)
  const take = (from: string, message: string): void => {
    if (from === changesChannel) changes.hear(message)
    else if (from === marks) heardAtMs = monotonicMs()
  }
  listener.on('message', guarded('directory', take, lost))
  if (!isCluster(talker)) {
    await requirePrimary(listener, allWritersPublish)
    await requireLoaded(talker)
    await listener.subscribe(changesChannel)
    return async () => {
      await Promise.all([listener.ping(), requirePrimary(talker, allWritersPublish)])
      await changes.passed()
    }
  }
  await listener.subscribe(changesChannel, marks)
  return async () => {
    // The mark travels from any node to the listener's, as changes do. Some publishes may reach a node that is down.
    talker.publish(marks, '').then(
      () => refusals.noteGood('publish'),
      (error: unknown) => refusals.noteFailure('publish', error),
    )
    await listener.ping()
    await changes.passed()
    if (monotonicMs() - heardAtMs > unheardMs) throw new Error('the Redis cluster does not pass on what is published')
  }
}

const isCluster = (client: Redis | Cluster): client is Cluster => client.isCluster

/** Rejects on a replica: its messages reach no other server, and it refuses counts. */
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

/** Rejects while the server loads its data from disk. Other refusals show with the commands. */
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
