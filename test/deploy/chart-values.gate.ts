import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { chart, findManifest, lackOf, renderChart, run } from '../support/deploy.ts'
import { testUnlessLacking } from '../support/lacks.ts'

const minimal = ['--values', join(chart, 'ci', 'minimal-values.yaml')]

const test = (name: string, body: (t: Test) => Promise<unknown>): void =>
  testUnlessLacking(t, name, body, lackOf('helm'))

/** A wrong value each, and what Helm calls the place. */
const wrongValues: readonly (readonly [value: string, place: RegExp])[] = [
  ['extraContainers=exporter', /extraContainers/],
  ['initContainers[0]=wait', /initContainers\/0/],
  ['extraObjects[0]=7', /extraObjects\/0/],
  ['commonLabels=team', /commonLabels/],
  ['commonLabels.team=7', /commonLabels\/team/],
  ['commonAnnotations=owner', /commonAnnotations/],
  ['deploymentAnnotations.reload=true', /deploymentAnnotations\/reload/],
  ['lifecycle=preStop', /lifecycle/],
  ['hostAliases[0]=database', /hostAliases\/0/],
  ['dnsConfig=options', /dnsConfig/],
  ['dnsPolicy=Cluster', /dnsPolicy/],
  ['runtimeClassName=7', /runtimeClassName/],
  ['image.registry=7', /image\/registry/],
  ['service.type=External', /service\/type/],
  ['service.port=eighty', /service\/port/],
  ['service.extraPorts[0]=8080', /service\/extraPorts\/0/],
  ['service.externalTrafficPolicy=Near', /service\/externalTrafficPolicy/],
  ['service.internalTrafficPolicy=Near', /service\/internalTrafficPolicy/],
  ['metrics.prometheusRule.runbookBaseUrl=7', /metrics\/prometheusRule\/runbookBaseUrl/],
  ['config.issuers[0].audience=7', /config\/issuers\/0/],
  ['config.upstreams.platform.health.interval=7', /config\/upstreams\/platform\/health/],
  ['config.listeners.public.maxConnections=0', /config\/listeners\/public\/maxConnections/],
  ['config.authentication.unknownTokens.perSecond=fast', /config\/authentication\/unknownTokens\/perSecond/],
]

test('a wrong value of each knob, and one deep in the configuration, is refused by its place', async (t) => {
  for (const [value, place] of wrongValues)
    await t.rejects(renderChart([...minimal, '--set', value]), { message: place }, value)
})

/** References, whose names may hold what ends a user's name in a URL. */
const variable = `$${'{A}'}`
const oddVariable = `$${'{A/@:}'}`

/** A secret each that a ConfigMap would keep, and what the chart calls the place. */
const plainSecrets: readonly (readonly [value: string, place: RegExp])[] = [
  [
    'config.issuers[0].introspection.clientSecret=hunter2hunter2',
    /config\.issuers\[0\]\.introspection\.clientSecret: write/,
  ],
  ['config.issuers[0].introspection.clientSecret=x$A', /clientSecret: write/],
  [`config.issuers[0].introspection.clientSecret=x${variable}`, /clientSecret: write/],
  ['config.redis.sentinels.password=hunter2', /config\.redis\.sentinels\.password: write/],
  [
    'config.transmitters[0].push.bearer=0123456789abcdef0123456789abcdef',
    /config\.transmitters\[0\]\.push\.bearer: write/,
  ],
  ['config.transmitters[0].push.bearer[0]=0123456789abcdef0123456789abcdef', /push\.bearer: write/],
  ['config.issuers[0].proxy=http://user:secret@proxy.internal:3128', /config\.issuers\[0\]\.proxy: the URL holds user/],
  ['config.issuers[0].proxy=http://token@proxy.internal:3128', /proxy: the URL holds user/],
  [`config.issuers[0].proxy=http://user:x${variable}@proxy.internal:3128`, /proxy: the URL holds user/],
  [`config.issuers[0].proxy=http://user:${variable}@b@proxy.internal:3128`, /proxy: the URL holds user/],
  [`config.issuers[0].proxy=http://${variable}:secret@proxy.internal:3128`, /proxy: the URL holds user/],
]

const references: readonly string[] = [
  'config.issuers[0].proxy=http://proxy.internal:3128',
  `config.issuers[0].proxy=http://user:${oddVariable}@proxy.internal:3128`,
  `config.issuers[0].proxy=http://${variable}@proxy.internal:3128`,
  `config.issuers[0].proxy=${variable}`,
  'config.issuers[0].tokens.bearer=true',
]

test('a secret in the configuration, which a ConfigMap would keep, is refused by its place', async (t) => {
  for (const [value, place] of plainSecrets)
    await t.rejects(renderChart([...minimal, '--skip-schema-validation', '--set', value]), { message: place }, value)
  for (const value of references) await t.resolves(renderChart([...minimal, '--set', value]), value)
})

test('the pod of "helm test" passes where the Service refuses, and fails elsewhere', async (t) => {
  let status = 401
  const paths: (string | undefined)[] = []
  const server = createServer(({ url }, response) => {
    paths.push(url)
    response.writeHead(status).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  const { metadata, spec } = findManifest(await renderChart(minimal), 'Pod', '-test')
  t.equal(metadata.annotations['helm.sh/hook'], 'test')
  const [{ command, args }] = spec.containers
  t.same(command, ['node', '-e'])
  const script = args[0].replace('gate-sallyport:80', `127.0.0.1:${port}`).replace('tryFor(30)', 'tryFor(2)')
  const ask = () => run(process.execPath, ['-e', script])
  t.match(await ask(), { code: 0, stdout: 'status 401\n' })
  t.same(paths, ['/users/me'])
  status = 503
  t.match(await ask(), { code: 1, stdout: 'status 503\nstatus 503\n' })
})
