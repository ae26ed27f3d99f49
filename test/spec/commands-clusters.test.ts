import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { generatePem } from '../../gateway/tools/cli/keys.ts'
import { type Ended, runCommand } from '../support/command-line.ts'
import { until, writeConfiguration } from '../support/gateway.ts'
import { populate } from '../support/population.ts'
import { bearer, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { writer, insert } = await populate(t, world)
const { healthy, suspended, stale, deleting } = world.clusters
const { acme } = world.organizations

const directory = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
t.teardown(() => rmSync(directory, { recursive: true, force: true }))
const upstream = { url: 'http://127.0.0.1:1' }
writeFileSync(join(directory, 'identity.pem'), generatePem('EdDSA'), { mode: 0o600 })
writeFileSync(
  join(directory, 'gateway.yaml'),
  JSON.stringify({
    database: { url: world.databaseUrl },
    issuers: [{ issuer: world.oidc.issuer, audience: 'sallyport-demo' }],
    identity: { keys: ['file:identity.pem'] },
    upstreams: { platform: upstream, agents: upstream, files: upstream, graphql: upstream, data: upstream },
    policies: { directory: fileURLToPath(new URL('../../policies', import.meta.url)) },
  }),
)

const clusters = (...args: readonly (string | number)[]): Promise<Ended> =>
  runCommand(['clusters', ...args.map(String), '--config', join(directory, 'gateway.yaml')])

const reach = async (id: number): Promise<number> => {
  const headers = bearer(world.serviceAccounts.robot.apiKey)
  return (await world.call({ path: `/clusters/${id}/proxy/x`, headers })).status
}

const readTrail = async () =>
  (await writer.query("select * from audit_events where action like 'cluster.%' order by id")).rows

t.test('a cluster that is suspended answers 403 at once, and 200 once it is resumed', async (t) => {
  t.equal(await reach(healthy), 200)
  const { code, stdout } = await clusters('suspend', healthy)
  t.same([code, stdout], [0, `cluster ${healthy} (healthy) is suspended: its proxy answers 403\n`])
  await until(async () => (await reach(healthy)) === 403, 'the suspension', 2_000)
  t.same((await clusters('suspend', healthy)).code, 0, 'twice is no mistake')
  const resumed = await clusters('resume', healthy, '--json')
  t.match(JSON.parse(resumed.stdout), { id: healthy, status: 'active', isOffline: false })
  await until(async () => (await reach(healthy)) === 200, 'the resumption', 2_000)
  const trail = { actor_id: null, credential: 'command-line', organization_id: acme.id, cluster_id: healthy }
  t.match(await readTrail(), [
    { ...trail, action: 'cluster.suspended', subject_id: null },
    { ...trail, action: 'cluster.resumed' },
  ])
  t.equal((await readTrail()).length, 2, 'a command without effect writes no event')
})

t.test('a heartbeat brings a silent cluster back', async (t) => {
  t.equal(await reach(stale), 503)
  t.match(await clusters('heartbeat', stale), { code: 0, stdout: /\(stale\) has a new heartbeat/ })
  await until(async () => (await reach(stale)) === 200, 'the heartbeat', 2_000)
})

t.test('a command changes no cluster that is being deleted, and creates none for an unknown id', async (t) => {
  for (const change of ['suspend', 'resume']) {
    const { code, stderr } = await clusters(change, deleting)
    t.equal(code, 1)
    t.match(stderr, /cluster 4 is deleting\. Only an active or a suspended cluster can be changed/)
  }
  t.equal(await reach(deleting), 503)
  t.match(await clusters('suspend', 4_711), {
    code: 1,
    stderr: /cluster 4711 does not exist\. Run "sallyport clusters list"/,
  })
  t.match(await clusters('suspend', 'healthy'), { code: 2, stderr: /must be an id/ })
})

t.test('a list shows what each proxy answers, and no password of an address', async (t) => {
  await insert(`clusters (organization_id, name, slug, base_url) values (${acme.id}, 'Secretive', 'secretive', $1)`, [
    'https://user:hunter2@cluster.example/private',
  ])
  const { code, stdout } = await clusters('list')
  t.equal(code, 0)
  t.match(stdout, /^ID +ORGANIZATION +SLUG +STATUS +LAST HEARTBEAT +ADDRESS\n/)
  t.match(stdout, /healthy +active +20/)
  t.match(stdout, /deleting +deleting \(offline\)/)
  t.match(stdout, /suspended +suspended +20/)
  t.match(stdout, /secretive +active \(offline\) +never +https:\/\/cluster\.example\n/)
  t.notMatch(stdout, /hunter2|private/)
  const listed = JSON.parse((await clusters('list', '--json')).stdout)
  t.match(
    listed.find(({ id }: { id: number }) => id === suspended),
    { status: 'suspended', isOffline: false },
  )
})

t.test('without an answer of Redis the list goes by the database, and says so', async (t) => {
  const config = writeConfiguration(t, { world, settings: { redis: { url: 'redis://127.0.0.1:1' } } })
  const { code, stdout, stderr } = await runCommand(['clusters', 'list', '--config', config])
  t.match({ code, stdout, stderr }, { code: 0, stdout: /healthy +active/, stderr: /Redis does not answer/ })
})

t.test('help has an example', async (t) => {
  for (const name of ['list', 'suspend', 'resume', 'heartbeat'])
    t.match(await runCommand(['clusters', name, '--help']), {
      code: 0,
      stdout: /Example:\n +\$ npx sallyport clusters/,
    })
})
