import { type PartReport, type Readiness, stateOf } from '../gateway/listeners/admin/readiness.ts'
import { state } from './format.ts'
import { type Html, html } from './html.ts'
import { renderLiveTable } from './live-table.ts'
import type { MetricsReader } from './metrics-reader.ts'

export type Component = Readonly<{ name: string; isGood: boolean; word: string }>

type Flag = Readonly<{ name: string; metric: string; good: string; bad: string }>

const flags: readonly Flag[] = [
  { name: 'policy files', metric: 'sallyport_policy_reload_success', good: 'in force', bad: 'refused, see Policy' },
  {
    name: 'identity keys',
    metric: 'sallyport_identity_keys_reload_success',
    good: 'in use',
    bad: 'refused, see the log',
  },
]
const shadowFlag: Flag = {
  name: 'shadow policy files',
  metric: 'sallyport_shadow_reload_success',
  good: 'in use',
  bad: 'refused, see Policy',
}
const auditFlag: Flag = { name: 'audit', metric: 'sallyport_audit_sink_up', good: 'written', bad: 'cannot be written' }

export type Features = Readonly<{ isAudited: boolean; hasShadow: boolean }>

export function listComponents(
  readiness: Readiness | undefined,
  figures: MetricsReader,
  equipped: Features,
): readonly Component[] {
  const wanted = [...flags, ...(equipped.hasShadow ? [shadowFlag] : []), ...(equipped.isAudited ? [auditFlag] : [])]
  return [
    ...Object.entries(readiness ?? { readiness: 'failing' }).map(([name, report]) => nameReadiness(name, report)),
    ...wanted.flatMap(({ name, metric, good, bad }) => {
      const value = figures.one(metric)
      return value === undefined ? [] : [{ name, isGood: value === 1, word: value === 1 ? good : bad }]
    }),
  ]
}

const good: Readonly<Record<string, string>> = { schema: 'as needed', writes: 'taken' }

function nameReadiness(name: string, report: PartReport): Component {
  const isGood = stateOf(report) === 'ok'
  if (typeof report !== 'string') return { name, isGood, word: `${report.state}: ${report.cause}` }
  if (name === 'draining') return { name: 'service', isGood, word: isGood ? 'open' : 'draining' }
  if (name === 'policy') return { name: 'policy table', isGood, word: isGood ? 'compiled' : 'none' }
  return { name, isGood, word: isGood ? (good[name] ?? 'answers') : 'failing' }
}

export const renderComponents = (parts: readonly Component[]): Html =>
  renderLiveTable({
    id: 'parts',
    caption: 'Components',
    heads: ['Part', 'State'],
    rows: parts.map(
      ({ name, isGood, word }) => html`<tr><th scope="row">${name}</th><td>${state(isGood, word)}</td></tr>`,
    ),
    empty: 'Nothing is known.',
  })
