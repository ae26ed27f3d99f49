import { Cluster, type ClusterOptions, Redis, type RedisOptions } from 'ioredis'
import { guarded } from '../../base/fault/guarded.ts'
import { answerTimeoutMs } from '../maintain-connection.ts'
import { withoutServerWords } from './refusals.ts'

export type RedisServers = Readonly<{
  url: string
  sentinels?: Readonly<{ name: string; nodes: readonly string[]; username?: string; password?: string; tls: boolean }>
  cluster?: Readonly<{ nodes: readonly string[] }>
}>

export type Clients = Readonly<{ listener: Redis; talker: Redis | Cluster }>

/** Five servers in turn fit the time of the link. One that is near answers in milliseconds. */
const connectTimeoutMs = 1_000

/** ioredis must neither queue nor retry, because `maintainConnection` makes the next connection. */
const common = {
  lazyConnect: true,
  connectTimeout: connectTimeoutMs,
  maxRetriesPerRequest: 1,
  autoResubscribe: false,
  // The link reads the role itself; INFO needs more rights than all other commands here.
  enableReadyCheck: false,
  retryStrategy: null,
  connectionName: 'sallyport',
} satisfies RedisOptions

type Made = Readonly<{
  onMade: (client: Redis | Cluster) => void
  onBroken: (error: unknown) => void
  commandTimeoutMs: number
}>

export async function openClients(servers: RedisServers, made: Made): Promise<Clients> {
  if (servers.cluster) return openCluster(servers, servers.cluster.nodes, made)
  const listener = watch(createClient(servers, answerTimeoutMs), made)
  const talker = watch(createClient(servers, made.commandTimeoutMs), made)
  await Promise.all([listener.connect(), talker.connect()])
  return { listener, talker }
}

/** Rotates the first sentinel, because one with stale data would name the former primary each time. */
let nextSentinel = 0

function createClient({ url, sentinels }: RedisServers, commandTimeout: number): Redis {
  const options = { ...common, commandTimeout, enableOfflineQueue: false }
  if (!sentinels) return new Redis(url, options)
  const { username, password, tls } = readUrl(url)
  const nodes = sentinels.nodes.map(readNode)
  const first = nextSentinel++ % nodes.length
  return new Redis(url, {
    ...options,
    name: sentinels.name,
    role: 'master',
    sentinels: [...nodes.slice(first), ...nodes.slice(0, first)],
    sentinelRetryStrategy: () => null,
    sentinelCommandTimeout: answerTimeoutMs,
    ...(sentinels.username !== undefined && { sentinelUsername: sentinels.username }),
    ...(sentinels.password !== undefined && { sentinelPassword: sentinels.password }),
    ...(sentinels.tls && { sentinelTLS: {} }),
    ...(username && { username }),
    ...(password && { password }),
    ...(tls && { tls, enableTLSForSentinelMode: true }),
  })
}

async function openCluster(servers: RedisServers, more: readonly string[], made: Made): Promise<Clients> {
  const { host, port, username, password, tls } = readUrl(servers.url)
  const node = {
    ...common,
    ...(username && { username }),
    ...(password && { password }),
    ...(tls && { tls }),
  }
  const options = {
    lazyConnect: true,
    enableOfflineQueue: false,
    enableReadyCheck: false,
    clusterRetryStrategy: () => null,
    // A retry after `commandTimeoutMs` is too late, and each one reads the slots again.
    maxRedirections: 4,
    retryDelayOnFailover: 50,
    retryDelayOnClusterDown: 50,
    slotsRefreshInterval: 1_000,
    // Keeps the host name, because the certificate names it.
    ...(tls && { dnsLookup: keepName }),
    // Drops a frozen node together with the commands that wait for it.
    redisOptions: { ...node, commandTimeout: answerTimeoutMs, socketTimeout: answerTimeoutMs },
  } satisfies ClusterOptions
  const talker = new Cluster([{ host, port }, ...more.map(readNode)], options)
  made.onMade(talker)
  // The client continues with the remaining nodes, and is lost only without any.
  await new Promise<void>((resolve, reject) => {
    const fail = (error: unknown): void => {
      reject(error)
      made.onBroken(withoutServerWords(error))
    }
    talker.on(
      'error',
      guarded('directory', (error: Error & { lastNodeError?: Error }) => fail(error.lastNodeError ?? error)),
    )
    talker.on(
      'end',
      guarded('directory', () => fail(new Error('no node of the Redis cluster can be reached'))),
    )
    talker.connect().then(resolve, reject)
  })
  const [first, ...others] = talker.nodes('master')
  await Promise.allSettled(talker.nodes('master').map((one) => one.ping()))
  const sampled = [first, ...others][Math.floor(Math.random() * (others.length + 1))]
  if (!sampled) throw new Error('the Redis cluster names no node')
  // A separate client: ioredis' own subscriber moves to another node silently, without reporting the gap.
  const { host: at, port: on } = sampled.options
  const address = { ...(at !== undefined && { host: at }), ...(on !== undefined && { port: on }) }
  const listener = watch(
    new Redis({ ...node, ...address, commandTimeout: answerTimeoutMs, enableOfflineQueue: false }),
    made,
  )
  await listener.connect()
  return { listener, talker }
}

function watch(client: Redis, { onMade, onBroken }: Made): Redis {
  onMade(client)
  client.on(
    'error',
    guarded('directory', (error: unknown) => onBroken(withoutServerWords(error))),
  )
  client.on(
    'end',
    guarded('directory', () => onBroken(new Error('the connection to Redis ended'))),
  )
  return client
}

const keepName: NonNullable<ClusterOptions['dnsLookup']> = (name, callback) => callback(null, name)

/** The certificates must name this host too, because sentinels and clusters name addresses. */
function readUrl(url: string) {
  const { protocol, hostname, port, username, password } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  return {
    host,
    port: Number(port || defaultPort),
    username: decodeURIComponent(username),
    password: decodeURIComponent(password),
    tls: protocol === 'rediss:' ? { servername: host } : undefined,
  }
}

// The port that IANA lists for Redis.
const defaultPort = 6379

function readNode(node: string): Readonly<{ host: string; port: number }> {
  const colon = node.lastIndexOf(':')
  return { host: node.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(node.slice(colon + 1)) }
}
