import { createHash } from 'node:crypto'
import t from 'tap'
import { type ConsoleSources, createConsole } from '../../console/console.ts'
import { createHistory } from '../../gateway/listeners/admin/history/history.ts'
import type { RecentRequest } from '../../gateway/listeners/admin/history/recent-requests.ts'
import type { AdminPage } from '../../gateway/listeners/admin/listener.ts'
import type { PolicyState } from '../../gateway/listeners/admin/policy-state.ts'
import { createMetrics } from '../../gateway/observe/metrics/metrics.ts'
import { compileConsoleTable } from '../../gateway/run/boot/console-table.ts'
import { writeTable } from '../support/policy-table.ts'

const now = new Date('2026-01-02T03:04:05Z')

const state: PolicyState = {
  directory: '/etc/sallyport/policies',
  loadedAt: '2026-01-02T03:00:00.000Z',
  files: ['table.yaml'],
  fingerprint: '0123456789ab',
  failure: undefined,
  held: undefined,
  change: undefined,
}

const refusal: RecentRequest = {
  kind: 'refusal',
  timeMs: now.getTime(),
  requestId: 'the-request',
  listener: 'public',
  status: 403,
  reason: 'role_insufficient',
  cause: 'role_too_low',
  tokenId: undefined,
  method: 'GET',
  path: '/things',
  route: 'r0',
  userId: 7,
  organizationId: 3,
  clientAddress: '192.0.2.1',
  upstream: undefined,
  durationMs: 1.5,
}

/** A history in which nothing happened, with these requests. */
const historyOf =
  (...requests: readonly RecentRequest[]): ConsoleSources['history'] =>
  async (query) => ({ ...createHistory(() => now.getTime()).read(query), requests })

const table = await compileConsoleTable(
  [['table.yaml', writeTable({ routes: ['/things GET require: { role: org-member }', '/open GET access: public'] })]],
  new Set(['u']),
)

const well: ConsoleSources = {
  readiness: async () => ({ database: 'ok', policy: 'ok', draining: 'ok' }),
  metrics: async () => [],
  policies: async () => ({ live: state, shadow: undefined }),
  history: historyOf(refusal),
  exchanges: async () => ({ total: 0, exchanges: [] }),
  replica: 'replica-1',
  version: '1.2.3',
  runbook: '# Runbook\n\n- [One](one.md): a `list`.\n- Two.\n\n### SallyportIssuerDown\n\n**Means:** no `keys`.\n',
  clusters: async () => ({ clusters: [], total: 0 }),
  whoMay: async () => ({ members: [], next: undefined }),
  table: async () => table,
  upstreams: [{ name: 'u', origin: 'http://upstream.example' }],
  issuers: ['https://issuer.example'],
  isAudited: true,
  now: () => now,
}

/** The page at an address, of a gateway that is well but for what is named. */
async function open(address: string, more: Partial<ConsoleSources> = {}): Promise<AdminPage> {
  const { pathname, searchParams } = new URL(address, 'http://admin.example')
  const page = await createConsole({ ...well, ...more })(pathname, searchParams)
  if (!page) throw new Error(`${address} is no page`)
  return page
}

const read = async (address: string, more?: Partial<ConsoleSources>): Promise<string> =>
  (await open(address, more)).body

const readHeader = ({ headers = [] }: AdminPage, name: string): string => headers[headers.indexOf(name) + 1] ?? ''

t.test('the console answers at no other path', async (t) => {
  const console = createConsole(well)
  for (const path of ['/console/', '/console/x', '/index.html', '//', '', '/live'])
    t.equal(console(path, new URLSearchParams()), undefined, path)
})

t.test('the page runs its own script and style, cannot be framed, and asks no other server', async (t) => {
  const page = await open('/')
  const rules = readHeader(page, 'content-security-policy')
  for (const part of ['script', 'style']) {
    const [, content = ''] = new RegExp(`<${part}>(.*?)</${part}>`, 's').exec(page.body) ?? []
    t.match(rules, `${part}-src 'sha256-${createHash('sha256').update(content).digest('base64')}'`)
  }
  t.match(rules, /^default-src 'none';.*base-uri 'none';.*form-action 'self'; frame-ancestors 'none'$/)
  t.notMatch(rules, /unsafe|\*/)
  t.notMatch(page.body, /\bsrc=|style="|\son[a-z]+="|@import|url\(/)
  t.same([...page.body.matchAll(/(?:href|action)="(?![#/]|data:image)([^"]*)/g)], [])
  t.match(readHeader(await open('/console/live'), 'content-security-policy'), /^default-src 'none'/)
})

t.test('each refreshed part has one place on the page, by the same id', async (t) => {
  const idsOf = (text: string) => [...text.matchAll(/id="([^"]+)" data-live/g)].map(([, id]) => id)
  const shadow = { policies: async () => ({ live: state, shadow: state }) }
  for (const more of [{}, shadow]) {
    const [page, live] = await Promise.all([read('/', more), read('/console/live', more)])
    t.same(idsOf(live), idsOf(page))
    t.ok(idsOf(live).length > 10)
    const ids = [...page.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id)
    t.equal(new Set(ids).size, ids.length, 'no id is there twice')
  }
  t.notMatch(await read('/console/live'), /matrix-table|<form/, 'the rest stays as it is')
})

t.test('the page can be used without eyes: landmarks, names for controls, heads for cells', async (t) => {
  const page = await read('/?path=/things&role=org-member')
  for (const landmark of ['<main id="main"', '<header', '<nav aria-label=', '<html lang="en">', 'role="search"'])
    t.match(page, landmark)
  t.match(page, /<body>\n<a class="skip" href="#main">/)
  t.equal(page.match(/<h1/g)?.length, 1)
  for (const [section] of page.matchAll(/<section[^>]*>/g)) t.match(section, /aria-labelledby="[\w-]+"/)
  for (const [, id] of page.matchAll(/aria-(?:labelledby|describedby)="([^"]*)"/g)) t.match(page, ` id="${id}"`)
  for (const [text] of page.matchAll(/<table.*?<\/table>/gs)) {
    t.match(text, /<caption/)
    t.notMatch(text, /<th(?! scope)[ >]/)
  }
  const hidden = page.match(/<input type="hidden"/g)?.length ?? 0
  const labelled = (page.match(/<label[^>]*>[^<]*<(?:select|input)/g)?.length ?? 0) + hidden
  t.equal(
    labelled + 1,
    page.match(/<(?:select|input)/g)?.length,
    'each control is in its label; the search has one beside',
  )
  t.match(page, '<label for="q">')
})

t.test('all that came with requests and files is text on the page', async (t) => {
  const hostile = `"><img src=x onerror=alert(1)>'</script></style><!--`
  const failure = { since: now.toISOString(), message: `${hostile}.yaml:1:1: ${hostile}` }
  const broken = { ...state, directory: hostile, files: [hostile], failure }
  const more: Partial<ConsoleSources> = {
    policies: async () => ({ live: broken, shadow: broken }),
    history: historyOf(
      { ...refusal, method: hostile, path: hostile, requestId: hostile, clientAddress: hostile, route: hostile },
      { ...refusal, method: undefined, path: undefined, listener: 'decision' },
    ),
    replica: hostile,
    version: hostile,
    runbook: `# ${hostile}\n${hostile}`,
    clusters: async () => ({
      clusters: [
        { id: 1, organizationId: 1, slug: hostile, state: 'offline', lastHeartbeatAt: undefined, origin: hostile },
      ],
      total: 1,
    }),
    upstreams: [{ name: hostile, origin: hostile }],
    issuers: [hostile],
  }
  const question = new URLSearchParams({
    q: hostile,
    method: hostile,
    path: hostile,
    host: hostile,
    role: hostile,
    'platform-role': hostile,
    credential: `token:${hostile}`,
    agent: hostile,
    ...{
      range: hostile,
      route: hostile,
      upstream: hostile,
      kind: hostile,
      reason: hostile,
      find: hostile,
      id: hostile,
    },
  })
  t.notMatch(await read('/console/runbook', more), /<img|<!--/)
  for (const address of [`/?${question}`, '/console/live']) {
    const page = await read(address, more)
    t.notMatch(page, /<img|<!--/)
    t.match(page, 'onerror=alert(1)&gt;')
    for (const part of ['script', 'style'])
      t.equal(page.match(new RegExp(`</${part}>`, 'g'))?.length ?? 0, address === '/console/live' ? 0 : 1)
  }
})

t.test('a file that cannot be loaded is told with its place, first of all', async (t) => {
  const failure = { since: '2026-01-02T03:04:00.000Z', message: 'table.yaml:4:2: no such role\ntable.yaml:9:1: other' }
  const page = await read('/', { policies: async () => ({ live: { ...state, failure }, shadow: undefined }) })
  t.match(page, 'The files cannot be loaded. The last good ones stay in force.')
  t.match(page, '>table.yaml:4:2: no such role\ntable.yaml:9:1: other</pre>')
  t.match(page, '(5 s ago)')
  t.notMatch(await read('/'), /cannot be loaded/)
})

t.test('the word at the top says what needs attention, and only that', async (t) => {
  const word = async (more: Partial<ConsoleSources>) =>
    /<p id="word"[^>]*>(.*?)<\/p>\s*<div id="problems"[^>]*>(.*?)<\/div>/
      .exec(await read('/console/live', more))
      ?.slice(1)
      .join(' ')
      .replace(/<a .*?<\/a>|<[^>]*>/g, '') ?? ''
  t.match(await word({}), 'All is well.')
  const metrics = createMetrics()
  metrics.notePolicyReload(false)
  metrics.countJwksFetch('https://issuer.example', 'failed')
  metrics.watchInvalidationSource(
    'postgres',
    () => false,
    () => undefined,
  )
  metrics.watchAuditSink(() => false)
  const ill = { metrics: metrics.snapshot, readiness: async () => ({ database: 'failing' as const }) }
  const said = await word(ill)
  t.match(said, '5 things need attention')
  for (const part of [
    'database: failing',
    'policy files: refused',
    'audit: cannot be written',
    'issuer https://issuer.example: its keys could not be fetched',
    'invalidation source postgres: is down',
  ])
    t.match(said, part)
  t.notMatch(await word({ ...ill, isAudited: false }), /audit/)
})

t.test('the page comes without a fact that cannot be read, and says so', async (t) => {
  const fail = () => Promise.reject(new Error('postgres://user:secret@host'))
  const page = await read('/?path=/things', {
    readiness: fail,
    metrics: fail,
    policies: fail,
    history: fail,
    clusters: fail,
    table: fail,
  })
  t.match(page, 'No process reports its policy at the moment.')
  t.match(page, 'Not known: the database does not answer.')
  t.match(page, 'No process reports its policy at the moment.')
  t.notMatch(page, /user:secret|All is well/)
  t.match(await read('/', { history: fail }), 'history</strong>: no process reports its requests')
  t.match(await read('/', { readiness: fail }), 'readiness</strong>: failing')
})

t.test('a question is answered on the page, and stands in the form again', async (t) => {
  t.notMatch(await read('/'), /id="verdict"/)
  const page = await read('/?method=GET&path=%2Fthings%3Fa%3D1&credential=token:api-key&role=org-client')
  t.match(page, /id="verdict"><strong>refused: 403 role_insufficient</)
  t.match(page, 'value="/things?a=1"')
  t.match(page, '<option value="org-client" selected>')
  t.match(page, '<option value="token:api-key" selected>')
  t.match(await read('/?path=/things&method=TRACE'), '<option value="TRACE" selected>')
  t.match(await read('/?path=/things&role=org-owner'), /<strong>allowed<\/strong>, by route <code>r0</)
  t.match(await read('/?path=/things&role=nobody'), /there is no role &quot;nobody&quot;/)
})

t.test('a request leads to its explanation, without a credential where none was accepted', async (t) => {
  const leadsOf = async (request: RecentRequest): Promise<string | undefined> =>
    /<a href="(\/\?method[^"]*#explain)"/.exec(await read('/', { history: historyOf(request) }))?.[1]
  t.equal(await leadsOf(refusal), '/?method=GET&amp;path=%2Fthings#explain')
  const unknown = { ...refusal, reason: 'unauthenticated', cause: 'credential_missing', userId: undefined }
  t.equal(await leadsOf(unknown), '/?method=GET&amp;path=%2Fthings&amp;credential=none#explain')
})

t.test('upstreams are judged by what they answered in the last minute', async (t) => {
  let atMs = now.getTime()
  const history = createHistory(() => atMs)
  const console = createConsole({ ...well, history: async (query) => history.read(query), now: () => new Date(atMs) })
  const look = async () => {
    const { body } = (await console('/console/live', new URLSearchParams())) ?? { body: '' }
    return /<th scope="row"><a [^>]*>u<\/a><\/th>(.*?)<\/tr>/.exec(body)?.[1]?.replace(/<[^>]*>/g, ' ')
  }
  const call = (status: number) => {
    history.upstream('u').begin(atMs)
    history.upstream('u').answered(status, 1, atMs)
  }
  t.match(await look(), 'quiet')
  call(200)
  t.match(await look(), /answers +1 +0 +0 %/)
  call(503)
  t.match(await look(), /1 × 5xx +2 +1 +50.0 %/)
  atMs += 130_000
  t.match(await look(), /quiet +2 +1/)
  for (let count = 0; count < 5; count++) history.upstream('u').begin(atMs)
  atMs += 11_000
  t.match(await look(), /5 wait, silent for 11 s/)
})

t.test('the replica, its version and the runbook stand on the page', async (t) => {
  const page = await read('/')
  t.match(page, '<code>replica-1</code> <span class="quiet">1.2.3</span>')
  const runbook = await read('/console/runbook')
  t.match(runbook, '<h3 id="sallyportissuerdown">SallyportIssuerDown</h3>')
  t.match(runbook, '<strong>Means:</strong> no <code>keys</code>.')
  t.match(runbook, /<ul><li>One: a <code>list<\/code>\. <\/li><li>Two\. <\/li><\/ul>/)
  t.match(await read('/console/runbook', { runbook: undefined }), 'has no copy')
})

t.test('control characters and marks of direction are shown as what they are not', async (t) => {
  const path = '/a\u0000\u001b[31m\u202e\u0085b'
  const page = await read('/', { history: historyOf({ ...refusal, path }) })
  t.match(page, '/a\ufffd\ufffd[31m\ufffd\ufffdb')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
  t.notMatch(page, /[\u0000-\u0008\u000b-\u001f\u0080-\u009f\u202e]/)
})

t.test('the address of the page holds range, filter and subject, for its links and its live parts too', async (t) => {
  const asked: unknown[] = []
  const history: ConsoleSources['history'] = async (query) => {
    asked.push(query)
    return createHistory(() => now.getTime()).read(query)
  }
  const address = '?range=60&route=r0&kind=failure&reason=internal&find=x&id=y'
  for (const path of ['/', '/console/live']) await read(`${path}${address}`, { history })
  const query = {
    slots: 360,
    step: 6,
    filter: { kind: 'failure', reason: 'internal', route: 'r0', text: 'x', requestId: 'y' },
  }
  t.match(asked, [query, query])
  await read('/?range=7&kind=other', { history })
  t.match(asked.at(-1), { slots: 90, filter: { kind: '' } }, 'what is not on offer is the usual')
  const page = await read(`/${address}`, { history })
  t.match(page, '<option value="failure" selected>')
  t.match(page, 'Requests: route r0')
  t.match(page, /href="\/\?range=5&amp;route=r0[^"]*#traffic"/)
})

t.test('programs get the list of requests as JSON, by the same words', async (t) => {
  let filter: unknown
  const history: ConsoleSources['history'] = async (query) => {
    filter = query.filter
    return historyOf(refusal)(query)
  }
  const { contentType, body } = await open('/console/requests.json?id=the-request', { history })
  t.match(contentType, 'application/json')
  const seen = { time: now.toISOString(), requestId: 'the-request', reason: 'role_insufficient', cause: 'role_too_low' }
  t.match(JSON.parse(body), { requests: [seen] })
  t.match(filter, { requestId: 'the-request' })
})
