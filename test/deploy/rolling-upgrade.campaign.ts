import { writeFileSync } from 'node:fs'
import { Agent, request as httpRequest } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { chart, lackOf, type Manifest, makeFolder, type Ran, run, tool } from '../support/deploy.ts'
import { until } from '../support/gateway.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { type ControlPlane, clusterLack, startControlPlane } from './cluster/control-plane.ts'
import { startKubelet } from './cluster/kubelet.ts'
import { followService, type Namespace, openNamespace, waitForRollout } from './cluster/namespace.ts'
import { startUpgradeFixture, type Upgrade, type UpgradeFixture } from './cluster/upgrade-scenes.ts'

const requests = 10_000
const [release, deployment] = ['gateway', 'gateway-sallyport']

testUnlessLacking(t, 'rolling upgrades on an API server of Kubernetes', tryUpgrades, clusterLack ?? lackOf('helm'))

type Cluster = Namespace & Readonly<{ helm: (values: Manifest) => Promise<Ran> }>

async function tryUpgrades(t: Test): Promise<void> {
  const [fixture, plane] = await Promise.all([startUpgradeFixture(t), startControlPlane(t)])
  await startKubelet(t, plane)
  const cluster = await prepare(t, fixture, plane)
  const installed = await cluster.helm({})
  t.equal(installed.code, 0, installed.stderr)
  await waitForRollout(cluster, deployment)
  const service = await followService(t, cluster.callApi, deployment)
  await until(() => service().length === 2, 'two endpoints of the Service')
  for (const upgrade of fixture.upgrades) {
    if (upgrade.refusedBy)
      await t.test(`${upgrade.name} ends in the hook ${upgrade.refusedBy}`, (t) => tryHook(t, cluster, upgrade))
    await t.test(`${upgrade.name}, past the hooks: 0 of ${requests} requests fail`, (t) =>
      withTraffic(t, service, fixture, () => tryPods(t, cluster, upgrade)),
    )
  }
  await t.test(`a good upgrade: 0 of ${requests} requests fail`, (t) =>
    withTraffic(t, service, fixture, async () => {
      const { code, stderr } = await cluster.helm({ podLabels: { version: 'next' } })
      t.equal(code, 0, stderr)
      await waitForRollout(cluster, deployment)
    }),
  )
}

async function prepare(t: Test, fixture: UpgradeFixture, plane: ControlPlane): Promise<Cluster> {
  const namespace = await openNamespace(t, plane)
  for (const [name, stringData] of Object.entries(fixture.secrets))
    await plane.callApi('POST', '/api/v1/namespaces/edge/secrets', {
      ...{ kind: 'Secret', apiVersion: 'v1', metadata: { name }, stringData },
    })
  const folder = makeFolder(t)
  const files = [join(folder, 'base.json'), join(folder, 'change.json')] as const
  writeFileSync(files[0], JSON.stringify(fixture.values))
  return {
    ...namespace,
    helm: (values) => {
      writeFileSync(files[1], JSON.stringify(values))
      const args = ['--namespace', 'edge', ...files.flatMap((file) => ['--values', file])]
      return run(tool.helm, ['upgrade', '--install', release, chart, ...args], { env: namespace.env })
    },
  }
}

/** Sends requests until the work is done and there were enough of them; each must be allowed and forwarded. */
async function withTraffic(
  t: Test,
  service: () => readonly string[],
  { credentials }: UpgradeFixture,
  work: () => Promise<void>,
): Promise<void> {
  const agent = new Agent({ keepAlive: true })
  const failures: string[] = []
  let [sent, isDone] = [0, false]
  const send = async (): Promise<void> => {
    while (!isDone || sent < requests) {
      const hosts = service()
      const host = hosts[sent++ % hosts.length] ?? ''
      const outcome = await ask(agent, host, credentials)
      if (outcome !== 200) failures.push(`${host}: ${outcome}`)
    }
  }
  const sending = Promise.all(Array.from({ length: 8 }, send))
  try {
    await work()
  } finally {
    isDone = true
    await sending
    agent.destroy()
  }
  t.same(failures, [], `of ${sent} requests`)
  t.comment(`${sent} requests`)
}

const ask = (
  agent: Agent,
  host: string,
  headers: UpgradeFixture['credentials'],
): Promise<number | string | undefined> =>
  new Promise((resolve) => {
    const request = httpRequest({ agent, host, port: 8080, path: '/users/me', headers }, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode))
      response.on('error', (error) => resolve(error.message))
    })
    request.on('error', (error) => resolve(error.message))
    request.end()
  })

/** An upgrade as the chart does it by default, but for the migration, which would mend a schema. */
async function tryHook(t: Test, cluster: Cluster, { values, refusedBy, says }: Upgrade): Promise<void> {
  const before = await listPods(cluster)
  const { code, stderr } = await cluster.helm({ ...values, migrations: { enabled: false } })
  t.not(code, 0)
  t.match(stderr, /pre-upgrade hooks failed/)
  const logs = await cluster.kubectl('logs', `job/${deployment}-${refusedBy}`)
  t.match(logs.stdout, says, logs.stderr)
  t.same(await listPods(cluster), before, 'no pod changes')
}

/** Those that stay: a pod of an earlier upgrade may be on its way out. */
async function listPods({ callApi }: Cluster, isWanted = (_: Manifest) => true): Promise<readonly string[]> {
  const { items } = await callApi('GET', `/api/v1/namespaces/edge/pods?labelSelector=${selector}`)
  return items
    .filter((pod: Manifest) => pod.metadata.deletionTimestamp === undefined && isWanted(pod))
    .map(({ metadata }: Manifest) => metadata.name)
    .sort()
}

const isReady = ({ status }: Manifest): boolean =>
  (status.conditions ?? []).some(({ type, status }: Manifest) => type === 'Ready' && status === 'True')

const selector = 'app.kubernetes.io%2Fname%3Dsallyport%2Cpod-template-hash'

async function tryPods(t: Test, cluster: Cluster, { values, says, isHarmless, ends }: Upgrade): Promise<void> {
  const [before, serving] = await Promise.all([listPods(cluster), listPods(cluster, isReady)])
  const { code, stderr } = await cluster.helm({ ...values, migrations: { enabled: false }, checks: { enabled: false } })
  t.equal(code, 0, stderr)
  if (isHarmless) await waitForRollout(cluster, deployment)
  const newPods = async () => (await listPods(cluster)).filter((name) => !before.includes(name))
  const newest = async (): Promise<string> => (await newPods()).at(-1) ?? ''
  await until(async () => (await newest()) !== '', 'a new pod')
  const told = async (): Promise<string> =>
    (await cluster.kubectl(...(ends ? ['describe', 'pod'] : ['logs']), await newest())).stdout
  let last = ''
  await until(async () => {
    last = await told()
    return says.test(last)
  }, `kubectl says ${says}`).catch((error) => t.fail(`${error.message}: ${last}`))
  if (isHarmless) return
  t.same(await listPods(cluster, isReady), serving, 'the old pods serve, and they alone')
}
