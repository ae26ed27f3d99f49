import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import t from 'tap'
import { call } from '../support/client.ts'
import { runCommand } from '../support/command-line.ts'
import { startTestGateway, until, writeConfiguration } from '../support/gateway.ts'
import { populate } from '../support/population.ts'
import { startRedis, testRedis } from '../support/redis.ts'
import { bearer, startTestWorld } from '../support/world.ts'

const policies = fileURLToPath(new URL('../../policies', import.meta.url))

const world = await startTestWorld(t)
const { insert } = await populate(t, world)

// `policy explain` once listed checks that were never made, so operators looked for the mistake in the wrong place.
t.test('an explanation ends with the check that refused', async (t) => {
  for (const [words, expected] of [
    [
      ['DELETE', '/datasets/5', '--role', 'org-client'],
      ['route', 'credential', 'role'],
    ],
    [
      ['POST', '/datasets', '--role', 'org-member', '--scope', 'api-key'],
      ['route', 'credential', 'role'],
    ],
    [
      ['GET', '/datasets', '--anonymous'],
      ['route', 'credential'],
    ],
    [
      ['POST', '/agent/1/responses', '--agent', 'foreign'],
      ['route', 'credential', 'role'],
    ],
  ] as const) {
    const { stdout } = await runCommand(['policy', 'explain', ...words, '--json', '--policies', policies])
    const { checks } = JSON.parse(stdout)
    t.same(
      checks.map(({ check }: { check: string }) => check),
      expected,
      words.join(' '),
    )
    t.ok(checks.slice(0, -1).every(({ isPassed }: { isPassed: boolean }) => isPassed))
    t.notOk(checks.at(-1).isPassed)
  }
})

testRedis(
  t,
  'a heartbeat that only Redis has heard counts for the list, the proxy and the console alike',
  async (t) => {
    const redis = await startRedis(t)
    // Without a heartbeat in the database: the demo world would keep renewing one that is there.
    const id = await insert(
      `clusters (organization_id, name, slug, base_url) values (${world.organizations.acme.id}, 'Remote', 'remote', $1)`,
      [world.backends.recorder],
    )
    const key = `sallyport:cluster:${id}:heartbeat`
    const client = new Redis(redis.url)
    t.teardown(() => client.del(key).finally(() => client.disconnect()))
    const settings = { redis: { url: redis.url } }
    const replica = await startTestGateway(t, { world, settings })
    const config = writeConfiguration(t, { world, settings })
    const headers = bearer(world.serviceAccounts.robot.apiKey)
    const readStates = async (): Promise<readonly boolean[]> => {
      const proxied = await call(replica.public, { path: `/clusters/${id}/proxy/x`, headers })
      const listed = JSON.parse((await runCommand(['clusters', 'list', '--json', '--config', config])).stdout)
      const { isOffline } = listed.find((cluster: { id: number }) => cluster.id === id)
      return [proxied.json().error?.code === 'cluster_offline', isOffline]
    }
    const beat = (ageMs: number) => client.set(key, Date.now() - ageMs)
    const both = (expected: boolean) => async () => (await readStates()).every((isOffline) => isOffline === expected)
    await until(both(true), 'a silent cluster', 10_000)
    await beat(0)
    await until(both(false), 'the heartbeat in Redis', 10_000)
    await beat(120_000)
    await until(both(true), 'an old heartbeat', 10_000)
  },
)
