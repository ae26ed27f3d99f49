import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { parse } from 'yaml'
import { documentedDefaults, documentedMetrics, namesIn } from '../support/documented-metrics.ts'
import { runPromtool, testPrometheus } from '../support/prometheus.ts'
import { type AlertCase, alertCases } from './alert-cases.ts'

type Group = Readonly<{ name: string; rules: readonly Rule[] }>
type Rule = Readonly<{
  alert: string
  expr: string
  labels: Readonly<{ severity: string }>
  annotations: Readonly<{ summary: string; runbook_url: string }>
}>

const file = fileURLToPath(new URL('../../helm/sallyport/files/alerts.yaml', import.meta.url))
const { groups }: Readonly<{ groups: readonly Group[] }> = parse(readFileSync(file, 'utf8'))
const rules = groups.flatMap((group) => group.rules)
const names = rules.map(({ alert }) => alert)

const runbook = readFileSync(new URL('../../docs/guides/runbook.md', import.meta.url), 'utf8')

/** The part of the runbook for a group of alerts: `sallyport - database and caches` is `Database and caches`. */
const partOf = ({ name }: Group): string => name.replace(/^sallyport - (.)/, (_, first: string) => first.toUpperCase())

t.test('each alert says how bad it is, what is wrong, and where to read on', async (t) => {
  t.ok(rules.length > 20, 'the rules were found')
  for (const group of groups)
    for (const { alert, labels, annotations } of group.rules) {
      t.match(labels.severity, /^(?:critical|warning)$/, alert)
      t.match(annotations.summary, /\.$/, alert)
      t.equal(annotations.runbook_url, `docs/guides/runbook.md#${alert.toLowerCase()}`)
    }
})

t.test('each alert has its section of the runbook, in the same order, and the other way round', async (t) => {
  const links = [...runbook.matchAll(/^- \[.+\]\((#[\w-]+)\)/gm)].map(([, link]) => link)
  t.same(
    links,
    groups.map((group) => `#${partOf(group).toLowerCase().replaceAll(' ', '-')}`),
    'its beginning leads to each part',
  )
  for (const group of groups) {
    const [, part = ''] = runbook.split(`\n## ${partOf(group)}\n`)
    const [page = ''] = part.split(/^## /m)
    t.same(
      [...page.matchAll(/^### (.+)$/gm)].map(([, title]) => title),
      group.rules.map(({ alert }) => alert),
    )
    for (const section of page.split(/^### /m).slice(1))
      for (const part of ['**Means:**', '**Look at:**', '**Do:**']) t.ok(section.includes(part), section.slice(0, 60))
  }
})

t.test('each metric of an expression is documented', async (t) => {
  const known = new Set([...documentedMetrics.map(({ name }) => name), ...documentedDefaults])
  for (const { alert, expr } of rules)
    t.same(
      namesIn(expr).filter((name) => !known.has(name)),
      [],
      alert,
    )
})

testPrometheus(t, 'Prometheus takes the rules; each alert fires when it should, and not before', async (t) => {
  const check = runPromtool(['check', 'rules', file])
  t.equal(check.code, 0, check.text)
  t.same(Object.keys(alertCases).sort(), [...names].sort(), 'each has its case')
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-alerts-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const tests = Object.entries(alertCases).flatMap(([alert, { fires, stays }]) => [
    composeTest(alert, fires, 1),
    composeTest(alert, stays, 0),
  ])
  writeFileSync(join(folder, 'tests.yaml'), JSON.stringify({ rule_files: [file], evaluation_interval: '1m', tests }))
  const { code, text } = runPromtool(['test', 'rules', 'tests.yaml'], '', folder)
  t.equal(code, 0, text)
})

/** After half an hour, by the series that Prometheus keeps of its own alerts. */
function composeTest(alert: string, series: AlertCase['fires'], firing: number) {
  const expression = `count(ALERTS{alertname="${alert}",alertstate="firing"}) or vector(0)`
  return {
    interval: '1m',
    name: `${alert} ${firing === 1 ? 'fires' : 'does not fire'}`,
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
    promql_expr_test: [{ expr: expression, eval_time: '30m', exp_samples: [{ labels: '{}', value: firing }] }],
  }
}
