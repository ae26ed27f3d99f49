import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { loadConfiguration } from '../../gateway/configuration/configuration.ts'
import { checkConfiguration } from '../../gateway/run/boot/check-configuration.ts'
import { generatePem } from '../../gateway/tools/cli/keys.ts'
import {
  chart,
  findManifest,
  lackOf,
  type Manifest,
  makeFolder,
  readManifests,
  renderChart,
  repository,
  run,
  tool,
} from '../support/deploy.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { complaintsAbout, podTemplateOf } from './restricted.ts'

const lack = lackOf('helm', 'validate', 'definitions')
const files = readdirSync(join(chart, 'ci'))
const valuesOf = (file: string): readonly string[] => ['--values', join(chart, 'ci', file)]
const minimal = valuesOf('minimal-values.yaml')
const everything = valuesOf('everything-values.yaml')

const readJson = (path: string): Manifest => JSON.parse(readFileSync(join(repository, path), 'utf8'))

const test = (name: string, body: (t: Test) => Promise<unknown>): void => testUnlessLacking(t, name, body, lack)

test('Helm finds nothing to say about the chart', async (t) => {
  t.ok(files.length >= 3)
  const ends = await Promise.all(
    files.map((file) => run(tool.helm, ['lint', chart, '--strict', '--quiet', ...valuesOf(file)])),
  )
  for (const [index, { code, stdout, stderr }] of ends.entries())
    t.same([code, stdout, stderr], [0, '', ''], files[index] ?? '')
})

/** Validates files as a Kubernetes API server of that version would. */
const validate = (paths: readonly string[], version = '1.30') =>
  run(tool.validate, [...paths, '--version', version, '--local-crds', tool.definitions])

test('every object is one that Kubernetes takes, from 1.27 on', async (t) => {
  const folder = makeFolder(t)
  for (const file of files) {
    const manifests = await renderChart(valuesOf(file))
    writeFileSync(join(folder, file), manifests.map((manifest) => `---\n${JSON.stringify(manifest)}\n`).join(''))
  }
  for (const version of ['1.27', '1.30']) {
    const { code, stdout, stderr } = await validate([folder, join(repository, 'examples/sidecar.yaml')], version)
    t.equal(code, 0, `${version}: ${stdout}${stderr}`)
  }
})

test('an object that Kubernetes would refuse is found', async (t) => {
  const folder = makeFolder(t)
  const manifests = await renderChart(everything)
  const planted: readonly (readonly [kind: string, spoil: (spec: Manifest) => object])[] = [
    ['Deployment', (spec) => ({ ...spec, replcas: 2 })],
    ['Service', (spec) => ({ ...spec, ports: [{ port: 'eighty' }] })],
    ['HTTPRoute', (spec) => ({ ...spec, parentRefs: [{}] })],
    ['ServiceMonitor', ({ selector }) => ({ selector })],
    ['NetworkPolicy', (spec) => ({ ...spec, policyTypes: 'Ingress' })],
  ]
  for (const [kind, spoil] of planted) {
    const manifest = manifests.find((manifest) => manifest.kind === kind)
    const file = join(folder, `${kind}.yaml`)
    writeFileSync(file, JSON.stringify({ ...manifest, spec: spoil(manifest?.spec) }))
    t.not((await validate([file])).code, 0, kind)
  }
})

test('every pod is as restricted as Pod Security knows', async (t) => {
  const rendered = (await Promise.all(files.map((file) => renderChart(valuesOf(file))))).flat()
  const example = readManifests(readFileSync(join(repository, 'examples/sidecar.yaml'), 'utf8'))
  const pods = [...rendered, ...example].flatMap((manifest) => podTemplateOf(manifest) ?? [])
  t.ok(pods.length >= 5)
  for (const pod of pods) t.same(complaintsAbout(pod), [])
  for (const account of rendered.filter(({ kind }) => kind === 'ServiceAccount'))
    t.equal(account.automountServiceAccountToken, false)
  t.notOk(
    rendered.some(({ kind }) => kind === 'Secret'),
    'Secrets are named, never made',
  )
  t.notOk(
    rendered.some(({ kind }) => /Role/.test(kind)),
    'no rights in the cluster',
  )
})

test('a pod that breaks one of these rules is found', async (t) => {
  const pod = podTemplateOf(findManifest(await renderChart(minimal), 'Deployment')) ?? {}
  const [gateway] = pod.spec.containers
  const inPod = (change: object): Manifest => ({ spec: { ...pod.spec, ...change } })
  const inContainer = (change: object): Manifest => inPod({ containers: [{ ...gateway, ...change }] })
  const inContext = (change: object): Manifest =>
    inContainer({ securityContext: { ...gateway.securityContext, ...change } })
  const planted: readonly Manifest[] = [
    inPod({ hostNetwork: true }),
    inPod({ automountServiceAccountToken: undefined }),
    inPod({ enableServiceLinks: undefined }),
    inPod({ securityContext: { seccompProfile: { type: 'RuntimeDefault' } } }),
    inPod({ securityContext: { runAsNonRoot: true } }),
    inPod({ volumes: [{ name: 'etc', hostPath: { path: '/etc' } }] }),
    inContext({ allowPrivilegeEscalation: undefined }),
    inContext({ privileged: true }),
    inContext({ runAsUser: 0 }),
    inContext({ readOnlyRootFilesystem: false }),
    inContext({ capabilities: { drop: ['NET_RAW'] } }),
    inContext({ capabilities: { drop: ['ALL'], add: ['NET_ADMIN'] } }),
    inContext({ seccompProfile: { type: 'Unconfined' } }),
    inContainer({ resources: { ...gateway.resources, limits: { memory: '1Gi' } } }),
    inContainer({ resources: { limits: gateway.resources.limits } }),
    inContainer({ env: [{ name: 'DATABASE_URL', value: 'postgres://user:secret@db/x' }] }),
  ]
  for (const [index, broken] of planted.entries()) t.equal(complaintsAbout(broken).length, 1, `number ${index}`)
})

/** Lays out what a pod finds at /etc/sallyport, in a folder; gives the configuration's path. */
function layOut(folder: string, manifests: readonly Manifest[], configMap: string, keys: readonly string[]): string {
  const policies: Manifest = findManifest(manifests, 'ConfigMap', '-policies').data
  const { data } = findManifest(manifests, 'ConfigMap', configMap)
  const contents: Readonly<Record<string, string>> = {
    'config/gateway.yaml': data['gateway.yaml'].replaceAll('/etc/sallyport/', `${folder}/`),
    'secrets/database/url': 'postgres://gateway@database/sallyport\n',
    'secrets/redis/url': 'redis://redis:6379\n',
    ...Object.fromEntries(keys.map((key) => [`secrets/keys/${key}`, generatePem('EdDSA')])),
    ...Object.fromEntries(Object.entries(policies).map(([name, text]) => [`policies/${name}`, String(text)])),
  }
  for (const [path, text] of Object.entries(contents)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  return join(folder, 'config', 'gateway.yaml')
}

/** The objects of a file of values, and a table where they name one of the user's own. */
async function renderWhole(file: string): Promise<readonly Manifest[]> {
  const manifests = await renderChart(valuesOf(file))
  const isWhole = manifests.some(({ metadata }) => metadata.name.endsWith('-policies'))
  return isWhole ? manifests : [...manifests, findManifest(await renderChart(minimal), 'ConfigMap', '-policies')]
}

const environment = {
  LISTEN_URL: 'postgres://gateway@database/sallyport',
  OIDC_ISSUER: 'https://login.example',
  SSF_LOGIN: 'secret-of-a-transmitter-0123456789',
}
const keys = ['identity.pem', 'old.pem', 'new.pem']

test('the configuration that comes out is one that the gateway starts with', async (t) => {
  const example = readManifests(readFileSync(join(repository, 'examples/sidecar.yaml'), 'utf8'))
  for (const manifests of [...(await Promise.all(files.map(renderWhole))), example]) {
    const path = layOut(makeFolder(t), manifests, '-config', keys)
    await t.resolves(checkConfiguration(loadConfiguration(path, environment)))
  }
})

test('large numbers, and what belongs to the chart, arrive as they were meant', async (t) => {
  const path = layOut(makeFolder(t), await renderWhole('everything-values.yaml'), '-config', keys)
  t.match(loadConfiguration(path, environment), {
    limits: { bodyBytes: 104857600 },
    drain: { delayMs: 10000, timeoutMs: 120500 },
    listeners: { public: { port: 8080, maxConnections: 2000 }, decision: { host: '::' }, admin: { port: 9090 } },
    database: { url: 'postgres://gateway@database/sallyport', poolSize: 20 },
    redis: { url: 'redis://redis:6379', sentinels: { name: 'mymaster', nodes: ['sentinel:26379'], tls: false } },
  })
})

test('a migration gets by with the database alone', async (t) => {
  const path = layOut(makeFolder(t), await renderWhole('everything-values.yaml'), '-migrations', [])
  t.match(loadConfiguration(path, {}), { database: { url: 'postgres://gateway@database/sallyport' } })
})

const refusals: Readonly<Record<string, readonly [args: readonly string[], message: RegExp]>> = {
  'nothing was set': [[], /config\/issuers/],
  'there is no table': [[...minimal, '--set', 'policies.files=null'], /policies\.files or policies\.existingConfigMap/],
  'no Secret is named for the database': [[...minimal, '--set', 'database.secretName='], /set database\.secretName/],
  'no Secret is named for the keys': [[...minimal, '--set', 'signingKeys.secretName='], /set signingKeys\.secretName/],
  'a connection string stands among the values': [
    [...minimal, '--set', 'config.database.url=postgres://user:hunter2@db/x'],
    /config\/database\/url/,
  ],
  'a value is misspelled': [[...minimal, '--set', 'replicas=3'], /replicas/],
  'a key of the configuration is misspelled': [[...minimal, '--set', 'config.upstream.x=1'], /upstream/],
  'the user is root': [[...minimal, '--set', 'runAsUser=0'], /runAsUser/],
  'a limit is missing': [[...minimal, '--set', 'resources.limits.memory=null'], /limits/],
  'a port to open is not named': [
    [...minimal, '--set', `config.upstreams.platform.url=$${'{PLATFORM}'}`],
    /networkPolicy\.egress\.upstreams\.ports/,
  ],
}
for (const [what, [args, message]] of Object.entries(refusals))
  test(`nothing is rendered where ${what}`, async (t) => {
    await t.rejects(renderChart(args), { message })
  })

interface ChartFiles {
  readonly composeValuesSchema: () => string
  readonly composeManifests: (helm: string) => string
}
const chartFiles: ChartFiles = await import(new URL('../../scripts/values-schema.js', import.meta.url).href)

t.test('the values have every key of the configuration, down to the last', async (t) => {
  t.same(readJson('helm/sallyport/values.schema.json'), JSON.parse(chartFiles.composeValuesSchema()), 'npm run chart')
})

test('the plain manifests are those of the chart', async (t) => {
  const file = join(repository, 'examples/kubernetes.yaml')
  t.equal(readFileSync(file, 'utf8'), chartFiles.composeManifests(tool.helm), 'npm run chart')
  const { code, stdout, stderr } = await validate([file])
  t.equal(code, 0, `${stdout}${stderr}`)
})

test('a reference to the environment stands for any value, and a wrong type for none', async (t) => {
  await t.resolves(renderChart([...minimal, '--set', 'config.log.level=$' + '{LEVEL:-info}']))
  await t.rejects(renderChart([...minimal, '--set', 'config.database.poolSize=many']), { message: /poolSize/ })
  await t.rejects(renderChart([...minimal, '--set', 'config.timeouts.bodyIdle=1']), { message: /bodyIdle/ })
})

test('the checks read what the pods will read', async (t) => {
  for (const args of [minimal, everything]) {
    const manifests = await renderChart(args)
    const pod = podTemplateOf(findManifest(manifests, 'Deployment'))?.spec
    for (const [name, weight] of [
      ['-check-policy', '-5'],
      ['-check-directory', '5'],
    ] as const) {
      const job = findManifest(manifests, 'Job', name)
      t.match(job.metadata.annotations, { 'helm.sh/hook': 'pre-install,pre-upgrade', 'helm.sh/hook-weight': weight })
      const check = podTemplateOf(job)?.spec
      t.same(
        check.containers[0].volumeMounts,
        pod.containers.find(({ name }: Manifest) => name === 'gateway').volumeMounts,
      )
      t.same(check.containers[0].env, pod.containers.find(({ name }: Manifest) => name === 'gateway').env)
      for (const kind of ['secret', 'emptyDir'])
        t.same(
          check.volumes.filter((volume: Manifest) => kind in volume),
          pod.volumes.filter((volume: Manifest) => kind in volume),
        )
    }
    t.same(
      findManifest(manifests, 'ConfigMap', '-checks').data,
      findManifest(manifests, 'ConfigMap', '-config').data,
      'the configuration that is to come',
    )
  }
})

test('every object bears the common labels and annotations', async (t) => {
  const added = /-extra$|-text$/
  for (const { kind, metadata } of await renderChart(everything))
    if (!added.test(metadata.name)) {
      t.equal(metadata.labels.team, 'platform', `${kind} ${metadata.name}`)
      t.equal(metadata.annotations?.['example.com/owner'], 'platform', `${kind} ${metadata.name}`)
    }
})

test('the further values reach the objects that they name', async (t) => {
  const manifests = await renderChart(everything)
  const deployment = findManifest(manifests, 'Deployment')
  t.match(deployment.metadata.annotations, { 'example.com/reload': 'true' })
  t.match(podTemplateOf(deployment)?.spec, {
    runtimeClassName: 'gvisor',
    dnsPolicy: 'ClusterFirst',
    dnsConfig: { options: [{ name: 'ndots', value: '2' }] },
    hostAliases: [{ ip: '10.9.0.1', hostnames: ['database'] }],
    initContainers: [{ name: 'wait' }],
    containers: [
      { name: 'gateway', image: /^registry\.example\/platform\/sallyport@sha256:/, lifecycle: { preStop: {} } },
      { name: 'exporter' },
    ],
  })
  const services = manifests.filter(({ kind, metadata }) => kind === 'Service' && metadata.name === 'gate-sallyport')
  t.match(services[0]?.spec, {
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    internalTrafficPolicy: 'Cluster',
    loadBalancerClass: 'example.com/internal',
    loadBalancerSourceRanges: ['10.0.0.0/8'],
    ipFamilyPolicy: 'PreferDualStack',
    ports: [
      { name: 'http', port: 80, nodePort: 30080 },
      { name: 'alternative', port: 8080 },
    ],
  })
  t.equal(findManifest(manifests, 'ConfigMap', '-extra').metadata.name, 'gate-extra', 'extra objects are templates')
  t.ok(findManifest(manifests, 'ConfigMap', '-text'))
  const rules = findManifest(manifests, 'PrometheusRule').spec.groups.flatMap(({ rules }: Manifest) => rules)
  for (const { annotations } of rules)
    t.match(annotations.runbook_url, /^https:\/\/wiki\.example\/sallyport\/runbook\.md#sallyport/)
})

test('every value has its type, and every type its value', async (t) => {
  const { properties } = readJson('helm/sallyport/values.schema.json')
  const values: Manifest = parse(readFileSync(join(chart, 'values.yaml'), 'utf8'))
  t.same(
    Object.keys(values).sort(),
    Object.keys(properties)
      .filter((name) => name !== 'global')
      .sort(),
  )
})

const checksumOf = (manifests: readonly Manifest[]): unknown =>
  podTemplateOf(findManifest(manifests, 'Deployment'))?.metadata.annotations['checksum/config']

test('a change of the configuration restarts the pods, and one of the policies does not', async (t) => {
  const before = checksumOf(await renderChart(minimal))
  t.not(checksumOf(await renderChart([...minimal, '--set', 'config.log.level=warn'])), before)
  t.equal(checksumOf(await renderChart([...minimal, '--set', 'policies.files.more\\.yaml=routes: []'])), before)
})

test('a pod is given time to drain, and its end is seen before it stops accepting', async (t) => {
  for (const file of files) {
    const { spec } = podTemplateOf(findManifest(await renderChart(valuesOf(file)), 'Deployment')) ?? {}
    const values: Manifest = parse(readFileSync(join(chart, 'ci', file), 'utf8'))
    const { delayMs, timeoutMs } = values.config.drain ?? { delayMs: 5_000, timeoutMs: 30_000 }
    t.ok(spec.terminationGracePeriodSeconds * 1000 >= delayMs + timeoutMs + 10_000, file)
    const { periodSeconds, failureThreshold, httpGet } = spec.containers[0].readinessProbe
    t.ok(periodSeconds * failureThreshold * 1000 < delayMs, file)
    t.equal(httpGet.path, '/readyz')
    t.equal(spec.containers[0].livenessProbe.httpGet.path, '/healthz', 'a database that is down restarts no pod')
  }
})

test('only ports that are named are open, and only to whom', async (t) => {
  const least = findManifest(await renderChart(minimal), 'NetworkPolicy', 'gate-sallyport').spec
  t.same(least.policyTypes, ['Ingress', 'Egress'])
  const portsOf = (rules: readonly Manifest[]) => rules.map(({ ports }) => ports.map(({ port }: Manifest) => port))
  t.same(portsOf(least.ingress), [[8080]], 'metrics and decisions are closed until a peer is named')
  const asking = await renderChart([...minimal, '--set', 'decision.enabled=true,signals.enabled=true'])
  const closed = findManifest(asking, 'NetworkPolicy', 'gate-sallyport').spec
  t.same(portsOf(closed.ingress), [[8080]], 'nor those of listeners that were only switched on')
  t.same(portsOf(least.egress), [[53, 53], [5432], [443], [3000]])
  const most = findManifest(await renderChart(everything), 'NetworkPolicy', 'gate-sallyport').spec
  t.same(portsOf(most.ingress), [[8080], [8081], [8082], [9090]])
  for (const { from } of most.ingress) t.equal(from.length, 1)
  t.same(portsOf(most.egress), [
    [53, 53],
    [5432, 6432],
    [6379],
    [443, 8443, 8444],
    [443, 3000, 9000, 80],
    [443],
    [4317],
  ])
  const migrations = findManifest(await renderChart(minimal), 'NetworkPolicy', '-migrations').spec
  t.same([migrations.ingress, portsOf(migrations.egress)], [[], [[53, 53], [5432]]])
})

test('the admin listener is behind no Service that clients reach', async (t) => {
  const manifests = await renderChart(everything)
  for (const { spec } of manifests.filter(({ kind, metadata }) => kind === 'Service' && !/-admin$/.test(metadata.name)))
    t.notMatch(JSON.stringify(spec.ports), /admin|9090/)
  for (const { spec } of manifests.filter(({ kind }) => ['Ingress', 'HTTPRoute'].includes(kind)))
    t.notMatch(JSON.stringify(spec), /admin|decision/)
})

test('alerts and dashboard are those of the files, where there are any', async (t) => {
  const copy = join(makeFolder(t), 'sallyport')
  cpSync(chart, copy, { recursive: true })
  mkdirSync(join(copy, 'files'), { recursive: true })
  const dashboard = { title: 'Sallyport', legend: '{{route}}' }
  const rule = { alert: 'Down', expr: 'up == 0', annotations: { summary: '{{ $labels.pod }} is down' } }
  writeFileSync(join(copy, 'files', 'dashboard.json'), JSON.stringify(dashboard))
  writeFileSync(join(copy, 'files', 'alerts.yaml'), JSON.stringify({ groups: [{ name: 'sallyport', rules: [rule] }] }))
  const manifests = await renderChart(everything, copy)
  t.same(findManifest(manifests, 'PrometheusRule').spec, { groups: [{ name: 'sallyport', rules: [rule] }] })
  t.same(JSON.parse(findManifest(manifests, 'ConfigMap', '-dashboard').data['sallyport.json']), dashboard)
  cpSync(join(chart, 'Chart.yaml'), join(copy, 'Chart.yaml'))
  writeFileSync(join(copy, 'files', 'alerts.yaml'), '')
  writeFileSync(join(copy, 'files', 'dashboard.json'), '')
  const without = (await renderChart(everything, copy)).map(({ kind, metadata }) => `${kind} ${metadata.name}`)
  t.notMatch(without.join(), /PrometheusRule|dashboard/)
})

void t.test('chart and image have the version of the package', async (t) => {
  const { version } = readJson('package.json')
  t.match(parse(readFileSync(join(chart, 'Chart.yaml'), 'utf8')), { version, appVersion: version })
})
