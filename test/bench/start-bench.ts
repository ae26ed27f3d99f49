import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { Pool } from 'undici'
import { startWorld, type World } from '../../gateway/demo/world.ts'
import type { Owner } from '../support/owner.ts'
import { findRedisLack, startRedis } from '../support/redis.ts'
import { startReplica } from '../support/replicas.ts'

/** A request of the bench, without a body. */
export type BenchRequest = Readonly<{
  method?: 'GET' | 'DELETE'
  path: string
  headers: Readonly<Record<string, string>>
}>

/** Sends a request to one replica, over connections that are kept; resolves to the status. */
export type Send = (request: BenchRequest) => Promise<number>

/** Two replicas on the database of a demo world, and a backend behind them that says yes to everything. */
export type Bench = Readonly<{
  world: World['description']
  database: pg.Client
  upstream: string
  /** Of the replicas. */
  origins: readonly string[]
  changing: Send
  watching: Send
}>

/** Starts all of it on free ports; with a Redis between the replicas where that is wanted. */
export async function startBench(owner: Owner, hasRedis: boolean, startUpstream = startPlain): Promise<Bench> {
  const redis = hasRedis ? { redis: { url: await requireRedis(owner) } } : {}
  const world = await startBenchWorld(owner)
  const upstream = await startUpstream(owner)
  const startOne = async (): Promise<string> => {
    const settings = { log: { level: 'warn' }, ...redis }
    return (await startReplica(owner, { world, settings, upstreams: { platform: { url: upstream } } })).public
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

/** A demo world for benches alone, which goes with its owner. */
export async function startBenchWorld(owner: Owner): Promise<World['description']> {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-bench-'))
  owner.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const ports = { public: 0, decision: 0, admin: 0 }
  const world = await startWorld({ directory, ports, notify: (sentence) => console.error(sentence) })
  owner.teardown(world.stop)
  return world.description
}

async function startPlain(owner: Owner): Promise<string> {
  const server = createServer((request, response) => {
    request.resume()
    response.end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  owner.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return `http://127.0.0.1:${port}`
}

function openSend(owner: Owner, origin: string): Send {
  const pool = new Pool(origin, { connections: 4 })
  owner.teardown(() => pool.destroy())
  return async ({ method = 'GET', path, headers }) => {
    const { statusCode, body } = await pool.request({ method, path, headers: { ...headers } })
    await body.dump()
    return statusCode
  }
}
