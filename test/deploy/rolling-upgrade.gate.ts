import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { findManifest, lackOf, type Manifest, makeFolder, renderChart } from '../support/deploy.ts'
import { until } from '../support/gateway.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { contentsOfPod } from '../support/pod.ts'
import { type ContainerProcess, probe, startContainer, writeVolumes } from './cluster/pod-process.ts'
import { startUpgradeFixture, type Upgrade, type UpgradeFixture } from './cluster/upgrade-scenes.ts'

testUnlessLacking(t, 'pods of a mistaken upgrade say what to do, and get no requests', tryUpgrades, lackOf('helm'))

async function tryUpgrades(t: Test): Promise<void> {
  const fixture = await startUpgradeFixture(t)
  const migration = await startPod(t, fixture, { kind: 'Job', ending: '-migrations' })
  t.equal(await migration.run.ended, 0, migration.run.log())
  const old = await startPod(t, fixture)
  await until(old.isReady, 'an old pod that is ready')
  await Promise.all(fixture.upgrades.map((upgrade) => t.test(upgrade.name, (t) => tryUpgrade(t, fixture, upgrade))))
  t.equal((await call(old.url, { path: '/users/me', headers: fixture.credentials })).status, 200)
}

async function tryUpgrade(
  t: Test,
  fixture: UpgradeFixture,
  { values, says, isHarmless, ends }: Upgrade,
): Promise<void> {
  const { run, isReady, url, container } = await startPod(t, fixture, { values })
  await until(() => says.test(run.log()), `the log says ${says}`).catch((error) =>
    t.fail(`${error.message}: ${run.log()}`),
  )
  if (ends) {
    t.equal(await run.ended, 2)
    t.equal(container.terminationMessagePolicy, 'FallbackToLogsOnError', 'kubectl describe shows the end of the log')
  }
  if (isHarmless) {
    await until(isReady, 'a pod that is ready')
    t.equal((await call(url, { path: '/users/me', headers: fixture.credentials })).status, 200)
  } else t.notOk(await isReady())
}

type Pod = Readonly<{ container: Manifest; run: ContainerProcess; isReady: () => Promise<boolean>; url: string }>

type Wanted = Readonly<{ values?: Manifest; kind?: string; ending?: string }>

let count = 0

/** Renders the chart and starts the one pod of an object. */
async function startPod(
  t: Test,
  fixture: UpgradeFixture,
  { values = {}, kind = 'Deployment', ending }: Wanted = {},
): Promise<Pod> {
  const folder = makeFolder(t)
  const files = [fixture.values, values].flatMap((content, index) => {
    const file = join(folder, `${index}.yaml`)
    writeFileSync(file, JSON.stringify(content))
    return ['--values', file]
  })
  const manifests = await renderChart(files)
  const { spec } = findManifest(manifests, kind, ending).spec.template
  const place = { address: `127.78.0.${++count}`, root: makeFolder(t) }
  writeVolumes(contentsOfPod(spec, manifests, fixture.secrets), place)
  const [container] = spec.containers
  const run = startContainer(container, place)
  t.teardown(() => {
    run.child.kill('SIGKILL')
    return run.ended
  })
  const isReady = () => probe(container, container.readinessProbe, place)
  return { container, run, isReady, url: `http://${place.address}:8080` }
}
