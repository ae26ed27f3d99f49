import t from 'tap'
import { dashboard, type Panel } from '../../support/dashboard.ts'
import { documentedDefaults, documentedMetrics, namesIn } from '../../support/documented-metrics.ts'

const { panels } = dashboard

t.test('every panel has a number, a place and a title of its own', async (t) => {
  t.ok(panels.length > 30, 'the panels were found')
  for (const part of ['id', 'title'] as const) t.equal(new Set(panels.map((panel) => panel[part])).size, panels.length)
  const overlap = ({ gridPos: one }: Panel, { gridPos: other }: Panel): boolean =>
    one.x < other.x + other.w && other.x < one.x + one.w && one.y < other.y + other.h && other.y < one.y + one.h
  for (const [index, panel] of panels.entries()) {
    t.ok(panel.gridPos.x + panel.gridPos.w <= 24, panel.title)
    for (const other of panels.slice(index + 1)) t.notOk(overlap(panel, other), `${panel.title} and ${other.title}`)
  }
})

t.test('every panel asks the chosen data source about the chosen replicas', async (t) => {
  t.match(
    dashboard.templating.list.map(({ name, type }) => [name, type]),
    [
      ['datasource', 'datasource'],
      ['instance', 'query'],
    ],
  )
  for (const { title, type, targets = [], fieldConfig } of panels) {
    if (type === 'row') continue
    t.ok(targets.length > 0 && fieldConfig?.defaults.unit, title)
    for (const { expr, datasource } of targets) {
      t.match(datasource.uid, /^\$\{datasource\}$/, title)
      t.ok(expr.includes('instance=~"$instance"'), expr)
      // A fixed range shorter than two scrapes gives no rate, so expressions use Grafana's `$__rate_interval`.
      t.notMatch(expr, /\[\d/, expr)
    }
  }
})

t.test('each metric of an expression is documented', async (t) => {
  const known = new Set([...documentedMetrics.map(({ name }) => name), ...documentedDefaults])
  for (const { title, targets = [] } of panels)
    for (const { expr } of targets)
      t.same(
        namesIn(expr).filter((name) => !known.has(name)),
        [],
        title,
      )
})
