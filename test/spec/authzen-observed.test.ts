import { fileURLToPath } from 'node:url'
import t from 'tap'
import { may, prepareAuthzen, record, user } from '../support/authzen-fixture.ts'
import { call } from '../support/client.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { startServing } from '../support/serve.ts'
import { bearer, startTestWorld } from '../support/world.ts'
import { type Collector, sdkPackages, startCollector, testSdk } from './collector.ts'

const world = await startTestWorld(t)
const fixture = await prepareAuthzen(t, world)
const { evaluator, folder } = fixture
const questions = [
  ['evaluation', may('alice', 'read', record('record-1'))],
  ['search/action', { subject: user('alice'), resource: record('record-1') }],
] as const

t.test('AuthZEN’s calls are in the durations of stages, and no differences of a shadow', async (t) => {
  const shipped = fileURLToPath(new URL('../../policies', import.meta.url))
  const policies = { directory: folder, shadow: shipped }
  const serving = await startTestGateway(t, { world, settings: { ...fixture.settings, policies } })
  const read = async (name: string): Promise<number> => {
    const { text } = await call(serving.admin, { path: '/metrics' })
    const lines = text.split('\n')
    return lines.filter((line) => line.startsWith(name)).reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
  }
  const count = (name: string): Promise<number> => read(`sallyport_stage_duration_seconds_count{stage="${name}"}`)
  const differences = (route: string): Promise<number> => read(`sallyport_shadow_differences_total{route="${route}`)
  const original = { 'x-original-method': 'GET', 'x-original-uri': '/records/record-1' }
  await until(async () => {
    await call(serving.decision, { path: '/authorize', headers: original })
    return (await differences('records.get')) > 0
  }, 'the shadow')
  const ask = fixture.createAsk(serving.decision)
  const stages = ['route', 'authenticate', 'resolve', 'decide']
  const before = await Promise.all(stages.map(count))
  for (const [path, body] of questions) t.equal((await ask(path, body)).status, 200, path)
  t.equal((await ask('evaluation', '{')).status, 400)
  t.same(
    await Promise.all(stages.map(count)),
    before.map((value) => value + 3),
  )
  t.equal((await ask('evaluation', questions[0][1], {})).status, 401)
  t.equal(await differences('authzen'), 0)
})

const variablesOf = ({ url }: Collector): Readonly<Record<string, string>> => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: url,
  OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
  OTEL_BSP_SCHEDULE_DELAY: '50',
})

testSdk(t, 'AuthZEN’s calls are spans', async (t) => {
  const collector = await startCollector(t)
  const environment = variablesOf(collector)
  const serving = await startServing(t, { world, settings: fixture.settings, packages: sdkPackages, environment })
  const ask = fixture.createAsk(serving.decision)
  for (const [path, body] of questions) {
    await ask(path, body, { ...bearer(evaluator), 'x-request-id': `observed ${path}`.replace(/\W/g, '-') })
    const find = () => collector.spans().find(({ name }) => name === `POST /access/v1/${path}`)
    await until(() => find() !== undefined, `the span of ${path}`)
    t.match(find()?.attributes, {
      'sallyport.listener': 'decision',
      'sallyport.route': `authzen.${path.replace('/', '-')}`,
      'sallyport.credential': 'api-token',
      'sallyport.decision': 'allowed',
      'http.response.status_code': 200,
    })
  }
  const secret = evaluator.split('.')[1] ?? evaluator
  t.notOk(JSON.stringify(collector.spans()).includes(secret), 'without the secret')
})
