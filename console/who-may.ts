import { type Document, renderDocument } from './document.ts'
import { renderSelect } from './explain.ts'
import { type Html, html, verbatim } from './html.ts'
import { renderLiveTable } from './live-table.ts'

export type WhoMayQuery = Readonly<{
  method: string
  path: string
  host: string
  organizationId: number
  after: number
}>

type ListedMember = Readonly<{ userId: number; role: string; userType: string; username: string | null }>

export type WhoMayPage = Readonly<{ members: readonly ListedMember[]; next: number | undefined }> | string

type Words = Readonly<Record<'method' | 'path' | 'host' | 'organization' | 'after', string>>

const longestPath = 2_048

export function readWords(parameters: URLSearchParams): Words {
  const read = (name: string, otherwise = ''): string => (parameters.get(name) || otherwise).slice(0, longestPath)
  return {
    method: read('method', 'GET').toUpperCase(),
    path: read('path'),
    host: read('host'),
    organization: read('organization'),
    after: read('after', '0'),
  }
}

export function readWhoMayQuery({ method, path, host, organization, after }: Words): WhoMayQuery | string | undefined {
  if (path === '' && organization === '') return undefined
  if (!path.startsWith('/')) return 'A path begins with a slash.'
  const [organizationId, afterId] = [readId(organization), readId(after)]
  if (organizationId === undefined || organizationId === 0) return 'An organization is named by its number.'
  if (afterId === undefined) return 'A page begins after the number of a user.'
  return { method, path, host, organizationId, after: afterId }
}

const largestId = 2_147_483_647

const readId = (text: string): number | undefined =>
  /^\d{1,10}$/.test(text) && Number(text) <= largestId ? Number(text) : undefined

export function renderWhoMay(methods: readonly string[], words: Words, found: WhoMayPage | undefined): Document {
  const body = html`<a class="skip" href="#main">Skip to the content</a>
<header class="bar"><p class="brand">Sallyport <span>who may</span></p><nav aria-label="Pages"><ul><li><a href="/">Console</a></li></ul></nav></header>
<main id="main" tabindex="-1">
<section aria-labelledby="who-may-title"><h1 id="who-may-title">Who may</h1>
<form action="/console/who-may" method="get" class="fields">
${renderSelect('method', 'Method', methods, words.method)}
<label class="wide">Path and query <input name="path" required value="${words.path}" placeholder="/datasets/5" autocomplete="off" spellcheck="false"></label>
<label>Host <input name="host" value="${words.host}" autocomplete="off" spellcheck="false"></label>
<label>Organization <input name="organization" required inputmode="numeric" pattern="[1-9][0-9]*" value="${words.organization}" autocomplete="off"></label>
<button>List</button>
</form>
${found === undefined ? undefined : renderFound(words, found)}</section></main>
`
  return renderDocument({ title: 'Sallyport: who may', body, script: verbatim(''), isServed: true })
}

function renderFound(words: Words, found: WhoMayPage): Html {
  if (typeof found === 'string') return html`<p class="notice bad" id="fault">${found}</p>`
  const { members, next } = found
  const table = renderLiveTable({
    id: 'who-may-table',
    caption: `Members of organization ${words.organization} who may ${words.method} ${words.path}, by a session of their own`,
    heads: [{ number: 'User' }, 'Role', 'Type', 'User name'],
    rows: members.map(
      ({ userId, role, userType, username }) =>
        html`<tr><th scope="row" class="number">${userId}</th><td>${role}</td><td>${userType}</td><td>${username ?? '–'}</td></tr>`,
    ),
    empty: next === undefined ? 'None may.' : 'None of these may. There are more members.',
  })
  if (next === undefined) return table
  const more = new URLSearchParams({ ...words, after: String(next) })
  return html`${table}<p><a href="/console/who-may?${more.toString()}" rel="next">More members</a></p>`
}
