import { fileURLToPath } from 'node:url'
import { createCachedDirectory } from '../../gateway/directory/cache/cached-directory.ts'
import { createFreshness } from '../../gateway/directory/cache/freshness.ts'
import type { Directory, ResourceRecord } from '../../gateway/directory/directory.ts'
import { loadPolicy } from '../../gateway/policy/load.ts'
import { readTarget } from '../../gateway/stages/receive/target.ts'
import { resolveResource } from '../../gateway/stages/resolve/resource.ts'
import { compileRoutes } from '../../gateway/stages/route/table.ts'
import type { Owner } from '../../test/support/owner.ts'
import { readCpuMicros } from '../peers/cpu-time.ts'
import { drive } from '../peers/load.ts'
import { findPercentile } from '../statistics.ts'
import { guardedPath, type ObjectsFixture, plainPath } from './fixture.ts'

const rounds = 50
const checksOfRound = 20_000

/** Processor time of one check with a cached answer, in microseconds: the id of the path, its key, and the cache. */
export async function measureCheck(): Promise<number> {
  const policies = fileURLToPath(new URL('../../policies', import.meta.url))
  const { routes } = loadPolicy(policies, new Set(['platform', 'agents', 'files', 'graphql', 'data']))
  const table = compileRoutes(routes)
  const organization = { id: 1, externalId: null, slug: 'a', accountType: 'team', role: 'org-member' } as const
  const freshness = createFreshness(() => performance.now())
  const levels = (id: string): ResourceRecord => ({
    levels: [{ id, organizationId: 1, ownerId: null, visibility: 'organization' }],
  })
  // The check asks a directory for nothing else.
  const store = { findResource: async ({ id }: { id: string }) => levels(id) } as unknown as Directory
  const ignore = (): void => undefined
  const { directory } = createCachedDirectory(store, {
    ...{ maxEntries: 10_000, ttlMs: 60_000, freshness },
    ...{ onRead: ignore, announce: ignore, onForgotten: ignore },
  })
  const matches = Array.from({ length: 100 }, (_, index) =>
    table.match(readTarget('GET', `/objects/datasets/${index + 1}`, ''), ''),
  )
  const costs: number[] = []
  for (let round = 0; round < rounds; round++) {
    freshness.markSynced(performance.now())
    for (const match of matches) await resolveResource(match, organization, directory, [])
    const before = process.cpuUsage()
    for (let count = 0; count < checksOfRound; count++) {
      const match = matches[count % matches.length]
      const found = match && resolveResource(match, organization, directory, [])
      if (!found || found instanceof Promise) throw new Error('the answer was not held')
    }
    const { user, system } = process.cpuUsage(before)
    costs.push((user + system) / checksOfRound)
  }
  return findPercentile(costs, 0.5)
}

type Load = Readonly<{ rounds: number; seconds: number; signal: AbortSignal }>

const connections = 64

/** Processor time of a request with a resource and of one without, in as many turns each, in one gateway. */
export async function measureRatio(owner: Owner, fixture: ObjectsFixture, { rounds, seconds, signal }: Load) {
  const { gateway, headers, ownId } = fixture
  const measure = async (path: string, forSeconds: number): Promise<number> => {
    signal.throwIfAborted()
    const before = readCpuMicros([gateway.pid])
    const { requests, failed } = await drive(
      owner,
      { url: gateway.public + path, headers: [headers] },
      connections,
      forSeconds,
    )
    if (requests === 0 || failed > requests / 1_000) throw new Error(`${path}: ${failed} of ${requests} failed`)
    return (readCpuMicros([gateway.pid]) - before) / requests
  }
  const [guarded, plain] = [guardedPath(ownId), plainPath(ownId)]
  for (const path of [guarded, plain, guarded, plain]) await measure(path, 3)
  const withMicros: number[] = []
  const withoutMicros: number[] = []
  for (let round = 0; round < rounds; round++) {
    console.error(`turn ${round + 1} of ${rounds}`)
    const isGuardedFirst = round % 2 === 0
    const first = await measure(isGuardedFirst ? guarded : plain, seconds)
    const second = await measure(isGuardedFirst ? plain : guarded, seconds)
    withMicros.push(isGuardedFirst ? first : second)
    withoutMicros.push(isGuardedFirst ? second : first)
  }
  const ratios = withMicros.map((micros, index) => micros / (withoutMicros[index] ?? Number.NaN))
  return { withMicros, withoutMicros, ratios }
}
