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
