import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import type { Owner } from '../../test/support/owner.ts'
import { type Replica, startReplica } from '../../test/support/replicas.ts'
import { oauth } from '../../test/support/world.ts'
import { listTree } from '../peers/cpu-time.ts'
import { startBackend } from '../peers/nginx.ts'
import { measuredCore } from '../peers/peer.ts'
import { startBenchWorld } from '../start-bench.ts'

/** A gateway whose two routes differ in their resource alone, and ids that are foreign, absent or the caller's. */
export type ObjectsFixture = Readonly<{
  gateway: Replica
  headers: Readonly<Record<string, string>>
  ownId: number | string
  /** Equally many ids of each kind, created in turn and of equal length. */
  foreignIds: readonly number[]
  absentIds: readonly number[]
}>

export const guardedPath = (id: number | string): string => `/bench/guarded/${id}`
export const plainPath = (id: number | string): string => `/bench/without/${id}`

const firstId = 1_000_000

const route = {
  surface: 'platform',
  upstream: 'platform',
  require: { role: 'org-member', ability: 'datasets:read' },
}

const routes = [
  {
    id: 'bench.guarded',
    match: { methods: ['GET'], path: '/bench/guarded/:id' },
    ...route,
    resource: { kind: 'dataset', param: 'id' },
  },
  { id: 'bench.without', match: { methods: ['GET'], path: '/bench/without/:id' }, ...route },
]

/** Makes a foreign and an absent id for each pair, and more for the warm-up, whose ids are not asked for again. */
export async function startObjectsFixture(owner: Owner, pairs: number): Promise<ObjectsFixture> {
  const world = await startBenchWorld(owner)
  const count = pairs + warmUpPairs
  const foreignIds = Array.from({ length: count }, (_, index) => firstId + 2 * index)
  const database = new pg.Client({ connectionString: world.databaseUrl })
  await database.connect()
  await database.query('insert into resources_dataset (id, organization_id) select unnest($1::int[]), $2', [
    foreignIds,
    world.organizations.globex.id,
  ])
  await database.query('vacuum analyze resources_dataset')
  await database.end()
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-bench-'))
  owner.teardown(() => rmSync(folder, { recursive: true, force: true }))
  cpSync(fileURLToPath(new URL('../../policies', import.meta.url)), folder, { recursive: true })
  writeFileSync(join(folder, 'bench.yaml'), JSON.stringify({ routes }))
  const gateway = await startReplica(owner, {
    world,
    settings: { policies: { directory: folder }, log: { level: 'warn' } },
    upstreams: { platform: { url: `http://127.0.0.1:${await startBackend(owner)}` } },
  })
  for (const pid of listTree(gateway.pid))
    execFileSync('taskset', ['-a', '-p', '-c', measuredCore, String(pid)], { stdio: 'ignore' })
  // By then the gateway has heard of the new rows, so it drops no cache entry during the measurement.
  await sleep(1_500)
  return {
    gateway,
    headers: oauth(world.users.member),
    ownId: world.objects.datasets.acme,
    foreignIds,
    absentIds: foreignIds.map((id) => id + 1),
  }
}

export const warmUpPairs = 1_000
