import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { Pool } from 'undici'
import { startWorld, type World } from '../demo/world.ts'
import type { Owner } from '../test/support/owner.ts'
import { findRedisLack, startRedis } from '../test/support/redis.ts'
import { startReplica } from '../test/support/replicas.ts'
import { runNone } from './no-gateway.ts'
import { putElsewhere, startScript } from './scripts.ts'

/** A request of the bench, without a body. */
export type BenchRequest = Readonly<{
  method?: 'GET' | 'DELETE'
  path: string
  headers: Readonly<Record<string, string>>
}>

/** Sends a request to one replica, over connections that are kept; resolves to the status. */
export type Send = (request: BenchRequest) => Promise<number>

/** A path that is answered at once, whatever the backend of other paths is. */
export const quickPath = '/data/bench'

/** Two replicas on the database of a demo world, and a backend behind them that says yes to everything. */
export type Bench = Readonly<{
  world: World['description']
  database: pg.Client
  upstream: string
  /** Addresses of the replicas. */
  origins: readonly string[]
  /** Sends to the replica that changes rights. */
  changing: Send
  /** Sends to the replica that has to notice the changes. */
  watching: Send
}>

/** Starts a bench on free ports, with a Redis between the replicas if `hasRedis`. */
export async function startBench(owner: Owner, hasRedis: boolean, startUpstream = startPlain): Promise<Bench> {
  const redis = hasRedis ? { redis: { url: await requireRedis(owner) } } : {}
  const world = await startBenchWorld(owner)
  if (world.pids.postgres !== undefined) putElsewhere(world.pids.postgres)
  const upstream = await startUpstream(owner)
  const upstreams = { platform: { url: upstream }, data: { url: await startPlain(owner) } }
  const startOne = async (): Promise<string> => {
    const settings = { log: { level: 'warn' }, ...redis }
    return (await startReplica(owner, { world, settings, upstreams })).public
  }
  const [changing, watching] = await Promise.all([startOne(), startOne()])
  const database = new pg.Client({ connectionString: world.databaseUrl })
  await database.connect()
  owner.teardown(() => database.end())
  const [change, watch] = [openSend(owner, changing), openSend(owner, watching)]
  return { world, database, upstream, origins: [changing, watching], changing: change, watching: watch }
}

async function requireRedis(owner: Owner): Promise<string> {
  const lack = findRedisLack()
  if (lack !== undefined) throw new Error(lack)
  return (await startRedis(owner)).url
}

/** A demo world for benches alone, which ends with its owner. */
export async function startBenchWorld(owner: Owner): Promise<World['description']> {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-bench-'))
  owner.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const ports = { public: 0, decision: 0, admin: 0 }
  // A bench starts the gateways that it measures.
  const options = { directory, ports, runGateway: runNone }
  const world = await startWorld({ ...options, notify: (sentence) => console.error(sentence) })
  owner.teardown(world.stop)
  return world.description
}

/** A backend of event streams, in a process of its own. */
export const startStreaming = async (owner: Owner): Promise<string> =>
  (await startScript(owner, 'open-upstream.ts', 'elsewhere').answer()) as string

const startPlain = async (owner: Owner): Promise<string> =>
  (await startScript(owner, 'plain-upstream.ts', 'ahead').answer()) as string

/** Far below the time after which a gateway closes an idle connection. */
const idleMs = 1_000

/** RFC 9112 9.3.1: a connection may close while a request is on its way, so one that changes nothing is sent again. */
export const mayRepeat = ({ method = 'GET' }: BenchRequest, error: unknown): boolean =>
  method === 'GET' && error instanceof Error && 'code' in error && closed.has(String(error.code))

const closed: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])

export function openSend(owner: Owner, origin: string): Send {
  const pool = new Pool(origin, { connections: 4, keepAliveTimeout: idleMs, keepAliveMaxTimeout: idleMs })
  owner.teardown(() => pool.destroy())
  const ask: Send = async ({ method = 'GET', path, headers }) => {
    const { statusCode, body } = await pool.request({ method, path, headers: { ...headers } })
    await body.dump()
    return statusCode
  }
  return (request) => ask(request).catch((error) => (mayRepeat(request, error) ? ask(request) : Promise.reject(error)))
}
