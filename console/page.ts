import { listComponents, renderComponents } from './components.ts'
import { renderExchanges } from './exchanges.ts'
import { type Explained, type ExplainQuestion, renderExplain } from './explain.ts'
import { renderCaches, renderClusters, renderConnections, renderIssuers, renderSources } from './health.ts'
import { type Html, html } from './html.ts'
import { renderMatrix, renderSearch } from './matrix.ts'
import { renderOverview } from './overview.ts'
import { renderDifferences, renderPolicies } from './policy.ts'
import { listPartProblems, renderProblems } from './problems.ts'
import type { ConsoleQuery } from './query.ts'
import { renderFilter, renderRequests } from './requests.ts'
import { type ConsoleSnapshot, noHistory } from './snapshot.ts'
import { renderCallers, renderCauses, renderPlots, renderRange, renderRoutes } from './traffic.ts'
import { describeEarlier, listTrafficProblems } from './traffic-problems.ts'
import { renderUpstreams, type UpstreamHealth } from './upstreams.ts'

export type Parts = ConsoleSnapshot &
  Readonly<{
    replica: string
    version: string
    query: ConsoleQuery
    issuers: readonly string[]
    isAudited: boolean
    upstreams: readonly UpstreamHealth[]
  }>

export type Asked = Readonly<{
  search: string
  question: ExplainQuestion | undefined
  explained: Explained | undefined
}>

export const renderParts = (parts: Parts): Html => {
  const { word, overview, traffic, requests, exchanges, policy, health } = renderLive(parts)
  return html`${[word, overview, traffic, requests, exchanges, policy, health]}`
}

function renderLive(parts: Parts) {
  const { now, figures, policies, table, history, query, upstreams, clusters, isAudited } = parts
  const hasShadow = policies?.shadow !== undefined
  const states = listComponents(parts.readiness, figures, { isAudited, hasShadow })
  const differences = renderDifferences(figures, hasShadow)
  const evidence = { history, upstreams, destinations: table.destinations, clusters, figures }
  const unknown = history === noHistory ? [{ name: 'history', finding: 'no process reports its requests' }] : []
  const problems = [...listPartProblems(states, policies, figures), ...unknown, ...listTrafficProblems(evidence)]
  return {
    word: renderProblems(problems, describeEarlier(evidence)),
    overview: renderOverview(figures, history, query, now),
    traffic: html`${renderPlots(query, history, now)}${renderUpstreams(upstreams, query, now)}${renderRoutes(query, history, now)}<div class="pair">${renderCauses(query, history, now)}${renderCallers(query, history)}</div>`,
    requests: renderRequests(query, history),
    exchanges: renderExchanges(parts.exchanges, now),
    policy: html`${renderPolicies(policies, table.lines.length, now)}${differences}`,
    health: html`<div class="cards">${renderComponents(states)}${renderIssuers(figures, parts.issuers)}${renderCaches(figures)}${renderConnections(figures)}${renderSources(figures)}</div>
${renderClusters(clusters, now)}`,
  }
}

export function renderWhole(parts: Parts, { search, question, explained }: Asked): Html {
  const { word, overview, traffic, requests, exchanges, policy, health } = renderLive(parts)
  const { query, history, replica, version } = parts
  const { lines, choices } = parts.table
  return html`<a class="skip" href="#main">Skip to the content</a>
<header class="bar"><h1 class="brand">Sallyport <span>console</span></h1>
<p class="replica"><code>${replica}</code> <span class="quiet">${version}</span></p>
<nav aria-label="Sections"><ul>${sections.map(([id, title]) => html`<li><a href="#${id}">${title}</a></li>`)}<li><a href="/console/who-may">Who may</a></li><li><a href="/console/runbook">Runbook</a></li></ul></nav>
<p class="pulse"><span id="fresh" role="status">As of ${parts.now.toISOString().slice(0, 19).replace('T', ' ')} UTC</span> <button type="button" id="pause" hidden>Pause</button></p></header>
<main id="main" tabindex="-1">
${word}${section('overview', overview)}${section('traffic', html`${renderRange(query, history)}${traffic}`)}${section('requests', html`${renderFilter(query, history)}${requests}`)}${section('exchanges', exchanges)}${section('policy', policy)}${section('health', health)}${section('explain', renderExplain(choices, question, explained))}${section('matrix', html`${renderSearch(lines, search, '/')}${renderMatrix(lines, search)}`)}</main>
`
}

const sections = [
  ['overview', 'Overview'],
  ['traffic', 'Traffic'],
  ['requests', 'Requests'],
  ['exchanges', 'Open exchanges'],
  ['policy', 'Policy'],
  ['health', 'Health'],
  ['explain', 'Explain'],
  ['matrix', 'Matrix'],
] as const

const titles: ReadonlyMap<string, string> = new Map(sections)

const section = (id: (typeof sections)[number][0], content: Html): Html =>
  html`<section id="${id}" aria-labelledby="${id}-title"><h2 id="${id}-title">${titles.get(id)}</h2>
${content}</section>
`
