import { listComponents, renderComponents } from './components.ts'
import { type Explained, type ExplainQuestion, renderExplain } from './explain.ts'
import { renderCaches, renderClusters, renderConnections, renderIssuers, renderSources } from './health.ts'
import { type Html, html } from './html.ts'
import { renderMatrix, renderSearch } from './matrix.ts'
import { renderOverview } from './overview.ts'
import { renderDifferences, renderPolicies } from './policy.ts'
import { listProblems, renderProblems } from './problems.ts'
import type { Rates } from './rates.ts'
import { renderRefusals } from './refusals.ts'
import type { ConsoleSnapshot } from './snapshot.ts'
import { renderUpstreams, type UpstreamHealth } from './upstreams.ts'

/** What the page is made of. */
export type Parts = ConsoleSnapshot &
  Readonly<{ rates: Rates; issuers: readonly string[]; isAudited: boolean; upstreams: readonly UpstreamHealth[] }>

/** What the address of the page asks for. */
export type Asked = Readonly<{
  search: string
  question: ExplainQuestion | undefined
  explained: Explained | undefined
}>

/** The parts that move, by themselves: each finds its place on the page by its id. */
export const renderParts = (parts: Parts): Html => {
  const { word, overview, policy, refusals, health } = renderLive(parts)
  return html`${[word, overview, policy, refusals, health]}`
}

function renderLive(parts: Parts) {
  const { now, figures, policies, table, rates, isAudited } = parts
  const hasShadow = policies?.shadow !== undefined
  const states = listComponents(parts.readiness, figures, { isAudited, hasShadow })
  const differences = renderDifferences(figures, hasShadow)
  return {
    word: renderProblems(listProblems(states, policies, parts.upstreams, figures)),
    overview: renderOverview(figures, rates, now),
    policy: html`${renderPolicies(policies, table.lines.length, now)}${differences}`,
    refusals: renderRefusals(parts.refusals),
    health: html`<div class="cards">${renderComponents(states)}${renderUpstreams(parts.upstreams)}${renderIssuers(figures, parts.issuers)}${renderCaches(figures)}${renderConnections(figures)}${renderSources(figures)}</div>
${renderClusters(parts.clusters, now)}`,
  }
}

/** The body of the whole page. */
export function renderWhole(parts: Parts, { search, question, explained }: Asked): Html {
  const { word, overview, policy, refusals, health } = renderLive(parts)
  const { lines, choices } = parts.table
  return html`<a class="skip" href="#main">Skip to the content</a>
<header class="bar"><h1 class="brand">Sallyport <span>console</span></h1>
<nav aria-label="Sections"><ul>${sections.map(([id, title]) => html`<li><a href="#${id}">${title}</a></li>`)}</ul></nav>
<p class="pulse"><span id="fresh" role="status">As of ${parts.now.toISOString().slice(0, 19).replace('T', ' ')} UTC</span> <button type="button" id="pause" hidden>Pause</button></p></header>
<main id="main" tabindex="-1">
${word}${section('overview', overview)}${section('policy', policy)}${section('refusals', refusals)}${section('health', health)}${section('explain', renderExplain(choices, question, explained))}${section('matrix', html`${renderSearch(lines, search, '/')}${renderMatrix(lines, search)}`)}</main>
`
}

const sections = [
  ['overview', 'Overview'],
  ['policy', 'Policy'],
  ['refusals', 'Refusals'],
  ['health', 'Health'],
  ['explain', 'Explain'],
  ['matrix', 'Matrix'],
] as const

const titles: ReadonlyMap<string, string> = new Map(sections)

const section = (id: (typeof sections)[number][0], content: Html): Html =>
  html`<section id="${id}" aria-labelledby="${id}-title"><h2 id="${id}-title">${titles.get(id)}</h2>
${content}</section>
`
