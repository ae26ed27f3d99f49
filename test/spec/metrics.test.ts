import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { call } from '../support/client.ts'
import { askedBy, dashboard } from '../support/dashboard.ts'
import { documentedDefaults, documentedMetrics } from '../support/documented-metrics.ts'
import { runPromtool, startPrometheus, testPrometheus } from '../support/prometheus.ts'
import { oauth, startTestWorld } from '../support/world.ts'
import { drawPanels } from './draw-dashboard.ts'
import { makeTraffic } from './metrics-traffic.ts'

/** `WRITE_SCREENSHOTS=1` renews the picture in the documentation. */
const writesPictures = process.env.WRITE_SCREENSHOTS === '1'
const picture = fileURLToPath(new URL('../../docs/guides/dashboard.svg', import.meta.url))
const pictureSeconds = 60
const pictureRows = 31

const world = await startTestWorld(t)
await makeTraffic(world)

const scrape = async (): Promise<string> => (await call(world.admin, { path: '/metrics' })).text

/** Metrics of a group of processes only. */
const ofGroups = ['sallyport_workers', 'sallyport_worker_restarts_total']

t.test('every documented metric is in a scrape, and every scraped one is documented', async (t) => {
  const types = [...(await scrape()).matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name = '', type = '']) => ({
    name,
    type,
  }))
  const own = types.filter(({ name }) => name.startsWith('sallyport_'))
  const documented = documentedMetrics
    .filter(({ name }) => !ofGroups.includes(name))
    .map(({ name, type }) => ({ name, type }))
  const order = (one: { name: string }, other: { name: string }) => one.name.localeCompare(other.name)
  t.ok(own.length > 40, 'there are many')
  t.same([...own].sort(order), [...documented].sort(order))
  const defaults = types.filter(({ name }) => !name.startsWith('sallyport_')).map(({ name }) => name)
  t.same([...defaults].sort(), [...documentedDefaults].sort())
})

t.test('a series has the labels that are documented, and no others', async (t) => {
  const text = await scrape()
  for (const { name, labels } of documentedMetrics)
    for (const [, found = ''] of text.matchAll(new RegExp(`^${name}(?:_bucket|_sum|_count)?(?:\\{(.*)\\})? `, 'gm'))) {
      const names = [...found.matchAll(/(\w+)="/g)].map(([, label = '']) => label).filter((label) => label !== 'le')
      t.same(names.sort(), [...labels].sort(), `${name}{${found}}`)
    }
})

t.test('requests and failures are counted', async (t) => {
  // Upstream connections close after seconds, so this one is new.
  await world.call({ path: '/datasets', headers: oauth(world.users.member) })
  const text = await scrape()
  for (const line of [
    /^sallyport_upstream_requests_total\{upstream="platform",outcome="2xx"\} [1-9]/m,
    /^sallyport_upstream_requests_total\{upstream="platform",outcome="5xx"\} 1$/m,
    /^sallyport_upstream_requests_total\{upstream="cluster",outcome="2xx"\} 1$/m,
    /^sallyport_upstream_requests_total\{upstream="cluster",outcome="upstream_unavailable"\} 1$/m,
    /^sallyport_upstream_first_byte_seconds_count\{upstream="agents"\} 2$/m,
    /^sallyport_stage_duration_seconds_count\{stage="pin"\} [1-9]/m,
    /^sallyport_database_query_duration_seconds_count\{statement="[a-z-]+"\} [1-9]/m,
    /^sallyport_database_connections_limit [1-9]/m,
    /^sallyport_upstream_connections_open\{origin="http:\/\/127\.0\.0\.1:\d+"\} [1-9]/m,
    /^sallyport_upstream_connections_limit [1-9]/m,
    /^sallyport_streams_failed_total\{code="worker_disconnected"\} 1$/m,
    /^sallyport_streams_failed_total\{code="upstream_timeout"\} 0$/m,
    /^sallyport_invalidation_lag_seconds\{source="postgres"\} \d+\.\d+$/m,
    /^sallyport_build_info\{version="\d+\.\d+\.\d+",node="v\d+\.\d+\.\d+"\} 1$/m,
  ])
    t.match(text, line)
})

testPrometheus(t, 'Prometheus takes the page, the examples and the dashboard', async (t) => {
  const prometheus = await startPrometheus(t, world.admin)
  await prometheus.scrapes(2)
  await makeTraffic(world)
  await prometheus.scrapes(2)

  await t.test('promtool has nothing to say of the page', async (t) => {
    const { code, text } = runPromtool(['check', 'metrics'], await scrape())
    // promtool warns of these names of prom-client.
    const complaints = text.split('\n').filter((line) => line !== '' && !/^(?:nodejs|process)_/.test(line))
    t.same(complaints, [], `exit code ${code}`)
  })

  await t.test('every example of the documentation is a query', async (t) => {
    for (const { name, example } of documentedMetrics)
      t.ok(Array.isArray(await prometheus.query(example)), `${name}: ${example}`)
  })

  await t.test('every panel of the dashboard shows something, unless it says that it need not', async (t) => {
    for (const { title, description = '', targets = [] } of dashboard.panels)
      for (const { expr } of targets) {
        const series = await prometheus.query(askedBy(expr, '1m'))
        if (!description.startsWith('Empty '))
          t.ok(
            series.some(({ value }) => !Number.isNaN(value)),
            `${title}: ${expr}`,
          )
      }
  })

  if (writesPictures)
    await t.test('the picture of the documentation is drawn without gaps', async (t) => {
      const untilMs = Date.now() + pictureSeconds * 1_000
      while (Date.now() < untilMs) {
        for (let count = Math.random() * 3; count > 0; count--) await makeTraffic(world)
        await new Promise((resolve) => setTimeout(resolve, 500))
      }
      const upper = dashboard.panels.filter(({ gridPos }) => gridPos.y < pictureRows)
      const drawn = await drawPanels(prometheus, upper, pictureSeconds)
      t.notMatch(drawn, 'NaN', 'nothing stood still meanwhile')
      writeFileSync(picture, drawn)
    })
})
