import { state } from './format.ts'
import { type Html, html } from './html.ts'

export type ExplainQuestion = Readonly<{
  method: string
  path: string
  host: string
  role: string
  platformRole: string
  credential: string
  agent: string
}>

export type Explained =
  | Readonly<{
      status: number
      outcome: string
      route: string | undefined
      source: string | undefined
      checks: readonly Readonly<{ check: string; isPassed: boolean; why: string }>[]
    }>
  | string

export type ExplainChoices = Readonly<{
  methods: readonly string[]
  roles: readonly string[]
  platformRoles: readonly string[]
  tokenScopes: readonly string[]
}>

export function readQuestion(parameters: URLSearchParams): ExplainQuestion | undefined {
  const read = (name: string, otherwise = ''): string => parameters.get(name) || otherwise
  // Without a path no question was asked: the page shows the form alone.
  if (read('path') === '') return undefined
  return {
    method: read('method', 'GET').toUpperCase(),
    path: read('path'),
    host: read('host', 'localhost'),
    role: read('role'),
    platformRole: read('platform-role'),
    credential: read('credential', 'oauth'),
    agent: read('agent', 'own'),
  }
}

export function readCredential(
  word: string,
): Readonly<{ kind: 'oauth' | 'none' } | { kind: 'token'; scope: string }> | undefined {
  if (word === 'oauth' || word === 'none') return { kind: word }
  return word.startsWith('token:') ? { kind: 'token', scope: word.slice('token:'.length) } : undefined
}

export const renderExplain = (
  choices: ExplainChoices,
  question: ExplainQuestion | undefined,
  explained: Explained | undefined,
): Html => html`<form action="/#explain" method="get" class="fields">
${renderSelect('method', 'Method', choices.methods, question?.method ?? 'GET')}
<label class="wide">Path and query <input name="path" required value="${question?.path ?? ''}" placeholder="/datasets/5?page=2" autocomplete="off" spellcheck="false"></label>
${renderSelect(
  'credential',
  'Credential',
  ['oauth', ...choices.tokenScopes.map((scope) => `token:${scope}`), 'none'],
  question?.credential ?? 'oauth',
  nameCredential,
)}
${renderSelect('role', 'Role in the organization', ['', ...choices.roles], question?.role ?? '')}
${renderSelect('platform-role', 'Platform role', ['', ...choices.platformRoles], question?.platformRole ?? '')}
${renderSelect('agent', 'Agent, if the route guards one', ['own', 'public', 'foreign'], question?.agent ?? 'own', (agent) => agentWords[agent] ?? agent)}
<label>Host <input name="host" value="${question?.host ?? 'localhost'}" autocomplete="off" spellcheck="false"></label>
<button>Explain</button>
</form>
${explained === undefined ? undefined : renderAnswer(explained)}`

function nameCredential(word: string): string {
  const credential = readCredential(word)
  if (credential?.kind === 'token') return `API token: ${credential.scope}`
  return word === 'oauth' ? 'OAuth token' : word
}

const agentWords: Readonly<Record<string, string>> = {
  own: 'of the own organization',
  public: 'public',
  foreign: 'of another organization',
}

/** The chosen word is offered even if the policy lacks it, so that the form shows the question that was answered. */
export const renderSelect = (
  name: string,
  label: string,
  options: readonly string[],
  chosen: string,
  nameOption = (option: string): string => option || 'none',
): Html => html`<label>${label} <select name="${name}">${[...new Set([...options, chosen])].map(
  (option) =>
    html`<option value="${option}"${option === chosen ? html` selected` : undefined}>${nameOption(option)}</option>`,
)}</select></label>
`

function renderAnswer(explained: Explained): Html {
  if (typeof explained === 'string') return html`<p class="notice bad" id="verdict">${explained}</p>`
  const { status, outcome, route, source, checks } = explained
  const isAllowed = outcome === 'allowed'
  const where = route === undefined ? undefined : html`, by route <code>${route}</code> (<code>${source}</code>)`
  return html`<p class="notice ${isAllowed ? 'good' : 'bad'}" id="verdict"><strong>${isAllowed ? 'allowed' : `refused: ${status} ${outcome}`}</strong>${where}</p>
<div class="box" role="region" tabindex="0" aria-labelledby="checks-caption"><table id="checks"><caption id="checks-caption">Checks, in the order in which they are made</caption>
<thead><tr><th scope="col">Check</th><th scope="col">Result</th><th scope="col">Why</th></tr></thead>
<tbody>${checks.map(
    ({ check, isPassed, why }) =>
      html`<tr><th scope="row">${check}</th><td>${state(isPassed, isPassed ? 'passed' : 'failed')}</td><td>${why}</td></tr>`,
  )}</tbody></table></div>
`
}
