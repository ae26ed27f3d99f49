import type { RefusalCode } from '../gateway/base/errors/gateway-error.ts'
import { renderDocument } from './document.ts'
import { type Html, html } from './html.ts'
import { matrixScript } from './script.ts'

export type MatrixCell = Readonly<{ role: string; credential: string; outcome: 'allowed' | RefusalCode }>

export type MatrixLine = Readonly<{
  route: string
  source: string
  methods: readonly string[]
  path: string
  upstreamPath?: string
  rateLimit?: string
  cells: readonly MatrixCell[]
}>

export function renderMatrix(lines: readonly MatrixLine[], search = ''): Html {
  const groups = groupColumns(lines[0]?.cells ?? [])
  const words = splitSearch(search)
  return html`<div class="box large matrix" role="region" tabindex="0" aria-labelledby="matrix-caption">
<table id="matrix-table"><caption id="matrix-caption" class="unseen">Access by route, role and credential</caption>
<colgroup></colgroup>${groups.map(({ roles }) => html`<colgroup span="${roles.length}"></colgroup>`)}
<thead><tr><th scope="col" rowspan="2" class="corner">Route</th>${groups.map(
    ({ credential, roles }) =>
      html`<th scope="colgroup" colspan="${roles.length}" class="first">${nameCredential(credential)}</th>`,
  )}</tr>
<tr>${groups.flatMap(({ roles }) =>
    roles.map((role, index) => html`<th scope="col" class="upright${markFirst(index)}"><span>${role}</span></th>`),
  )}</tr></thead>
<tbody>${lines.map((line) => renderLine(line, words))}</tbody></table></div>
${legend}`
}

/** Without an `address` the search needs a script, so the form stays hidden until that runs. */
export function renderSearch(lines: readonly MatrixLine[], search: string, address?: string): Html {
  const words = splitSearch(search)
  const matches = lines.filter((line) => isMatch(line, words)).length
  return html`<form role="search" class="search" id="search"${address === undefined ? html` hidden` : html` action="${address}#matrix" method="get"`}>
<label for="q">Search routes</label>
<input type="search" id="q" name="q" value="${search}" placeholder="method, path, id or file" autocomplete="off" spellcheck="false" aria-describedby="matches">
<button id="find">Search</button>
<span id="matches" role="status" class="quiet">${matches} of ${lines.length} routes</span>
</form>
`
}

const splitSearch = (search: string): readonly string[] => search.toLowerCase().split(/\s+/).filter(Boolean)

const nameCredential = (credential: string): string => {
  if (credential === 'none') return 'none'
  return credential === 'oauth' ? 'OAuth token' : `API token: ${credential}`
}

const renderLine = (line: MatrixLine, words: readonly string[]): Html => html`<tr data-words="${wordsOf(line)}"${
  isMatch(line, words) ? undefined : html` hidden`
}><th scope="row"><span class="methods">${line.methods.join(' ')}</span> <code>${line.path}</code><span class="place"><span class="unseen">, </span>${line.route} · ${line.source}${line.upstreamPath === undefined ? undefined : html` · as <code>${line.upstreamPath}</code>`}${line.rateLimit === undefined ? undefined : ` · ${line.rateLimit}`}</span></th>${line.cells.map(
  (cell, index) => renderCell(cell, cell.credential !== line.cells[index - 1]?.credential),
)}</tr>
`

const wordsOf = ({ methods, path, upstreamPath = '', route, source }: MatrixLine): string =>
  `${methods.join(' ')} ${path} ${route} ${source} ${upstreamPath}`.trimEnd().toLowerCase()

const isMatch = (line: MatrixLine, words: readonly string[]): boolean =>
  words.every((word) => wordsOf(line).includes(word))

const markFirst = (index: number): string => (index === 0 ? ' first' : '')

function renderCell({ outcome }: MatrixCell, isFirst: boolean): Html {
  const name = nameOutcome(outcome)
  return html`<td class="${name === 'yes' ? 'yes' : 'no'}${markFirst(isFirst ? 0 : 1)}">${name}</td>`
}

type Group = Readonly<{ credential: string; roles: readonly string[] }>

function groupColumns(cells: readonly MatrixCell[]): readonly Group[] {
  const credentials = [...new Set(cells.map(({ credential }) => credential))]
  return credentials.map((credential) => ({
    credential,
    roles: cells.filter((cell) => cell.credential === credential).map(({ role }) => role),
  }))
}

const legend = html`<dl class="legend">
<div><dt class="yes">yes</dt><dd>allowed</dd></div>
<div><dt class="no">401</dt><dd>a credential is asked for</dd></div>
<div><dt class="no">role</dt><dd>403: the role is too low, or no organization is in force</dd></div>
<div><dt class="no">ability</dt><dd>403: the credential lacks the ability</dd></div>
<div><dt class="no">resource</dt><dd>the resource is another’s</dd></div>
</dl>
`

/** The matrix as one HTML file without outside resources; the same policy gives the same bytes. */
export const renderMatrixPage = (lines: readonly MatrixLine[]): string =>
  renderDocument({
    title: 'Sallyport access matrix',
    isServed: false,
    script: matrixScript,
    body: html`<a class="skip" href="#main">Skip to the matrix</a>
<header class="bar"><p class="brand">Sallyport</p></header>
<main id="main" tabindex="-1"><section id="matrix" aria-labelledby="matrix-title">
<h1 id="matrix-title">Access matrix</h1>
${renderSearch(lines, '')}${renderMatrix(lines)}</section></main>
`,
  }).text

export function nameOutcome(outcome: 'allowed' | RefusalCode): 'yes' | '401' | 'role' | 'ability' | 'resource' {
  switch (outcome) {
    case 'allowed':
      return 'yes'
    case 'unauthenticated':
      return '401'
    case 'role_insufficient':
    case 'organization_forbidden':
      return 'role'
    case 'ability_missing':
      return 'ability'
    default:
      return 'resource'
  }
}
