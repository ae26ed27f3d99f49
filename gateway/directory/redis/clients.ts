import { Cluster, type ClusterOptions, Redis, type RedisOptions } from 'ioredis'
import { guarded } from '../../fault/guarded.ts'
import { answerTimeoutMs } from '../maintain-connection.ts'
import { withoutServerWords } from './refusals.ts'

/** Where Redis is: one server, a primary that sentinels name, or a cluster. */
export type RedisServers = Readonly<{
  /** Credentials, database and TLS of every server, and the address of one. */
  url: string
  /** `nodes` are `host:port`; credentials and TLS are those of the sentinels. */
  sentinels?: Readonly<{ name: string; nodes: readonly string[]; username?: string; password?: string; tls: boolean }>
  /** Nodes beside that of `url`, `host:port`; the cluster names the rest. */
  cluster?: Readonly<{ nodes: readonly string[] }>
}>

/** The two connections of a link: one that listens may not publish. */
export type Clients = Readonly<{ listener: Redis; talker: Redis | Cluster }>

const connectTimeoutMs = 1_000

/** Past this the answer is of no use to a request. */
export const commandTimeoutMs = 200

/** Of ioredis, here and there: nothing is queued, nothing is tried again; `maintainConnection` makes the next connection. */
const common = {
  lazyConnect: true,
  connectTimeout: connectTimeoutMs,
  maxRetriesPerRequest: 1,
  autoResubscribe: false,
  // The link asks for the role itself; INFO needs more rights than anything else here.
  enableReadyCheck: false,
  retryStrategy: null,
  connectionName: 'sallyport',
} satisfies RedisOptions

type Made = Readonly<{ onMade: (client: Redis | Cluster) => void; onBroken: (error: unknown) => void }>

/** Connects both; `onMade` gets each before it connects, so that whatever goes wrong can be closed. */
export async function openClients(servers: RedisServers, made: Made): Promise<Clients> {
  if (servers.cluster) return openCluster(servers, servers.cluster.nodes, made)
  const listener = watch(createClient(servers, answerTimeoutMs), made)
  const talker = watch(createClient(servers, commandTimeoutMs), made)
  await Promise.all([listener.connect(), talker.connect()])
  return { listener, talker }
}

/** A sentinel that is out of touch would name the former primary each time; so the next attempt begins with another. */
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
    // What is still to be tried again after commandTimeoutMs comes too late; each try asks for the slots anew.
    maxRedirections: 4,
    retryDelayOnFailover: 50,
    retryDelayOnClusterDown: 50,
    slotsRefreshInterval: 1_000,
    // A name of a certificate stays a name.
    ...(tls && { dnsLookup: keepName }),
    // A node that is frozen is let go of, with what waits for it.
    redisOptions: { ...node, commandTimeout: answerTimeoutMs, socketTimeout: answerTimeoutMs },
  } satisfies ClusterOptions
  const talker = new Cluster([{ host, port }, ...more.map(readNode)], options)
  made.onMade(talker)
  // It goes on with the nodes that are left; only without any it is lost.
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
  // Else the first request for each node would pay for its connection.
  await Promise.allSettled(talker.nodes('master').map((one) => one.ping()))
  const sampled = [first, ...others][Math.floor(Math.random() * (others.length + 1))]
  if (!sampled) throw new Error('the Redis cluster names no node')
  // A connection of its own: ioredis' subscriber moves to another node by itself, and says nothing of the gap.
  const { host: at, port: on } = sampled.options
  const address = { ...(at !== undefined && { host: at }), ...(on !== undefined && { port: on }) }
  const listener = watch(
    new Redis({ ...node, ...address, commandTimeout: answerTimeoutMs, enableOfflineQueue: false }),
    made,
  )
  await listener.connect()
  return { listener, talker }
}

/** Tells of whatever ends a connection that stands for one server. */
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

/** The host is the name in the servers' certificates too, since sentinels and clusters name addresses. */
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

const defaultPort = 6379

/** `host:port`, `[address]:port`, as the schema has checked. */
function readNode(node: string): Readonly<{ host: string; port: number }> {
  const colon = node.lastIndexOf(':')
  return { host: node.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(node.slice(colon + 1)) }
}
