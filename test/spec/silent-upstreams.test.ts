import t from 'tap'
import { decide, type Permit } from '../../gateway/stages/authorize/decide.ts'
import { createLocate } from '../../gateway/stages/locate/locate.ts'
import { runCommand } from '../support/command-line.ts'
import { writeConfiguration } from '../support/gateway.ts'
import { parseTable } from '../support/policy-table.ts'

const { routes, roles } = parseTable({
  routes: [
    '/model access: public surface: model',
    '/own access: public surface: model timeouts: { firstByteMs: 70000 }',
    '/platform access: public',
    '/data access: public surface: data',
  ],
})

/** The first bytes for which the gateway waits, by path. */
async function listWaits(firstByteMs?: number): Promise<Readonly<Record<string, number>>> {
  const u = {
    ...{ name: 'u', origin: 'http://u', preservesHost: false, forwardsCredentials: false, isBound: false },
    ...{ passedOverrides: new Set<string>(), cookies: 'strip' as const, isIsolated: false },
    answers: { passedCommands: new Set<string>(), cache: 'private' },
  } as const
  const locate = createLocate({
    directory: { findCluster: async () => undefined },
    upstreams: new Map([['u', u]]),
    clusterStaleAfterMs: 1,
    clusters: { networks: { admits: () => false }, cookies: u.cookies, answers: u.answers },
    defaults: { timeouts: { connectMs: 1, idleMs: 1, streamIdleMs: 1, firstByteMs }, bodyLimitBytes: 1 },
    now: () => new Date(),
  })
  const waits = routes.map(async (route) => {
    const { path } = route
    const target = { method: 'GET', path, search: '', segments: [path.slice(1)], hasEncodedSlash: false }
    const match = { route, params: new Map<string, string>(), target, rest: undefined, hostLabel: undefined }
    const { permit } = decide(match, undefined, roles) as Readonly<{ permit: Permit }>
    return [path, (await locate(permit, '')).timeouts.firstByteMs] as const
  })
  return Object.fromEntries(await Promise.all(waits))
}

t.test('a model has ten minutes for its first byte and others one, unless they are set', async (t) => {
  t.same(await listWaits(), { '/model': 600_000, '/own': 70_000, '/platform': 60_000, '/data': 60_000 })
  t.same(await listWaits(5_000), { '/model': 5_000, '/own': 70_000, '/platform': 5_000, '/data': 5_000 })
})

t.test('policy check names a wait for all surfaces that ends calls of models', async (t) => {
  const check = async (firstByteMs?: number, timeouts?: object) => {
    const settings = firstByteMs ? { timeouts: { firstByteMs } } : {}
    const model = { id: 'm', match: { path: '/m' }, surface: 'model', upstream: 'platform', access: 'authenticated' }
    const written = writeConfiguration(t, { settings, routes: [{ ...model, ...(timeouts ? { timeouts } : {}) }] })
    const { stdout, stderr } = await runCommand(['policy', 'check', '--config', written])
    return /timeouts\.firstByteMs of \d+ also ends 1 model route/.test(stdout + stderr)
  }
  t.ok(await check(60_000))
  t.notOk(await check())
  t.notOk(await check(600_000))
  t.notOk(await check(60_000, { firstByteMs: 90_000 }))
})
