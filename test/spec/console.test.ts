import { join } from 'node:path'
import pg from 'pg'
import t from 'tap'
import { call, callRaw, type JsonValue } from '../support/client.ts'
import { runCommand } from '../support/command-line.ts'
import { startTestGateway, until, writeConfiguration } from '../support/gateway.ts'
import { startServing } from '../support/serve.ts'
import { oauth, startTestWorld } from '../support/world.ts'
import { startConsoleFixture } from './console-fixture.ts'

const world = await startTestWorld(t)
const fixture = await startConsoleFixture(t, world)
const { gateway } = fixture
const configurationFile = writeConfiguration(t, { world })
const database = new pg.Client({ connectionString: world.databaseUrl })
await database.connect()
t.teardown(() => database.end())

async function readRefusals(admin: string): Promise<readonly string[]> {
  const { text } = await call(admin, { path: '/console/live' })
  const [, rows = ''] = /id="requests-table".*?<tbody>(.*?)<\/tbody>/s.exec(text) ?? []
  return rows.split('</tr>').map((row) => row.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' '))
}

t.test('the console is at /, never stored, sniffed or framed, and is read alone', async (t) => {
  const { status, headers, text } = await call(gateway.admin, { path: '/' })
  t.equal(status, 200)
  t.match(text, /^<!doctype html>/)
  t.match(headers, {
    'content-type': 'text/html; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
    'content-security-policy': /default-src 'none'.*frame-ancestors 'none'/,
  })
  const head = await call(gateway.admin, { method: 'HEAD', path: '/?path=/datasets' })
  t.same([head.status, head.text], [200, ''])
  t.match(await call(gateway.admin, { path: '/console' }), { status: 308, headers: { location: '/' } })
  for (const path of ['/', '/console', '/console/live'])
    t.match(await call(gateway.admin, { method: 'POST', path }), { status: 405, headers: { allow: 'GET, HEAD' } })
})

t.test('a host that any site could point at this machine gets no page of a loopback listener', async (t) => {
  const ask = async (host: string, path = '/') => (await call(gateway.admin, { path, headers: { host } })).status
  for (const host of ['127.0.0.1:9090', 'localhost', 'LOCALHOST:9090', '[::1]:9090', 'admin.localhost', '192.0.2.1'])
    t.equal(await ask(host), 200, host)
  for (const host of ['evil.example', 'evil.example:9090', 'localhost.evil.example', '127.0.0.1.evil.example', 'x'])
    for (const path of ['/', '/console/live', '/metrics', '/healthz', '/.well-known/jwks.json', '/nowhere'])
      t.equal(await ask(host, path), 421, `${host} ${path}`)
  t.equal(await ask('localhost', '/metrics'), 200)
})

t.test('refused callers, routes and causes appear; secret or hostile text does not', async (t) => {
  const { users } = world
  const secret = 'oat_MTI.c2VjcmV0LXNlY3JldC1zZWNyZXQ'
  const requestId = 'the-first-request'
  const headers = { ...oauth(users.member), 'x-request-id': requestId, 'user-agent': '<img src=x>' }
  await call(gateway.public, { method: 'POST', path: '/datasets?password=hunter2', headers })
  await call(gateway.public, { path: `/nowhere/${secret}`, headers: { authorization: `Bearer ${secret}` } })
  await callRaw(gateway.public, 'GET /"><script>alert(1)</script> HTTP/1.1\r\nHost: a\r\n\r\n', 200)
  await callRaw(gateway.public, 'GET / HTTP/1.1\r\nHost: a\r\nHost: <b>\r\n\r\n', 200)
  await call(gateway.decision, {
    path: '/authorize',
    headers: { ...oauth(users.member), 'x-forwarded-method': 'DELETE', 'x-forwarded-uri': '/datasets/7?x=hunter2' },
  })
  const rows = await readRefusals(gateway.admin)
  t.match(
    rows[0],
    /refused 403 role_insufficient role_too_low DELETE \/datasets\/7 decision datasets\.change – 3 1 127\.0\.0\.1/,
  )
  t.match(rows[1], /400 headers_malformed/)
  t.match(rows[2], '404 route_not_found GET /&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;')
  t.match(rows[3], /40\d \w+ GET \/nowhere\/\[redacted\]/)
  t.match(rows[4], /refused 403 role_insufficient role_too_low POST \/datasets datasets\.create – 3 1 127\.0\.0\.1/)
  const { text } = await call(gateway.admin, { path: '/' })
  t.notMatch(text, /hunter2|c2Vj|<img|<script>alert|<b>|eyJ/)
})

t.test('upstreams, issuers, caches and clusters show the same numbers as the metrics', async (t) => {
  await call(gateway.public, { path: '/datasets', headers: oauth(world.users.member) })
  const { text } = await call(gateway.admin, { path: '/' })
  const rows = [...text.matchAll(/<tr[^>]*>(.*?)<\/tr>/gs)].map(([, row = '']) =>
    row
      .replace(/<[^>]*>/g, ' ')
      .replace(/\s+/g, ' ')
      .trim(),
  )
  const has = (pattern: RegExp) =>
    t.ok(
      rows.some((row) => pattern.test(row)),
      String(pattern),
    )
  has(/^platform http:\/\/127\.0\.0\.1:\d+ ./)
  has(/^http:\/\/127\.0\.0\.1:\d+ ● good \d+ s \d+ 0$/)
  has(/^users \d+ \d+ [\d.]+ %$/)
  has(/^postgres ● up \d+$/)
  has(/^public \d+ [\d,]+ 0$/)
  has(/^1 healthy ● active .* 1 http:/)
  has(/^2 suspended ○ suspended/)
  has(/^3 stale ▲ offline/)
  has(/^datasets\.list lost \d+$/)
})

async function readWhoMay(admin: string, words: Readonly<Record<string, string>>) {
  const { status, headers, text } = await call(admin, { path: `/console/who-may?${new URLSearchParams(words)}` })
  const [, rows = ''] = /id="who-may-table".*?<tbody>(.*?)<\/tbody>/s.exec(text) ?? []
  const ids = [...rows.matchAll(/<th scope="row" class="number">(\d+)</g)].map(([, id]) => Number(id))
  const [, next] = /href="([^"]*)" rel="next"/.exec(text) ?? []
  const [, fault] = /id="fault">(.*?)<\/p>/s.exec(text) ?? []
  return { status, headers, text, ids, next: next?.replaceAll('&amp;', '&'), fault }
}

t.test(
  'the members who may send a request are those that the command prints, in pages and without their addresses',
  async (t) => {
    const { acme, globex } = world.organizations
    const words = { method: 'delete', path: '/datasets/5', organization: String(acme.id) }
    const print = async (organization: number): Promise<readonly number[]> => {
      const options = ['--organization', String(organization), '--config', configurationFile, '--json']
      const { stdout } = await runCommand(['policy', 'who-may', 'DELETE', '/datasets/5', ...options])
      return JSON.parse(stdout).map(({ userId }: JsonValue) => userId)
    }
    for (const organization of [acme.id, globex.id]) {
      const { status, headers, text, ids } = await readWhoMay(gateway.admin, {
        ...words,
        organization: String(organization),
      })
      t.equal(status, 200)
      t.match(headers, {
        'content-security-policy': /default-src 'none'.*frame-ancestors 'none'/,
        'cache-control': 'no-store',
      })
      t.ok(ids.length > 0)
      t.same(ids, await print(organization))
      t.notMatch(text, /\w@\w/)
    }
    await database.query(
      `with added as (insert into users (email, user_type) select 'n' || n || '@many.example', 'human'
        from generate_series(1, 150) n returning id)
      insert into role_assignments (user_id, organization_id, role) select id, $1, 'org-admin' from added`,
      [acme.id],
    )
    const first = await readWhoMay(gateway.admin, words)
    t.equal(first.ids.length, 100)
    const second = await readWhoMay(
      gateway.admin,
      Object.fromEntries(new URL(first.next ?? '', gateway.admin).searchParams),
    )
    t.equal(second.next, undefined)
    t.same([...first.ids, ...second.ids], await print(acme.id))
  },
)

t.test('a question about members that names nothing is told, and hostile words stay words', async (t) => {
  const right = { method: 'GET', path: '/datasets/5', organization: '1' }
  const rows = [
    [{ ...right, path: '/no/such/route' }, /No route takes GET \/no\/such\/route/],
    [{ ...right, method: '<b>' }, /No route takes &lt;B&gt;/],
    [{ ...right, path: '/"><script>alert(1)</script>' }, /No route takes/],
    [{ ...right, path: 'datasets' }, /begins with a slash/],
    [{ ...right, organization: '1 or 1=1' }, /by its number/],
    [{ ...right, organization: '2147483648' }, /by its number/],
    [{ ...right, after: '-1' }, /after the number of a user/],
  ] as const
  for (const [words, fault] of rows) {
    const answer = await readWhoMay(gateway.admin, words)
    t.match(answer, { status: 200, fault, ids: [] })
    t.notMatch(answer.text, /<b>|<script>alert/i)
  }
  t.match(await readWhoMay(gateway.admin, {}), { status: 200, fault: undefined, ids: [] })
  const head = { path: '/console/who-may', headers: { host: 'evil.example' } }
  t.equal((await call(gateway.admin, head)).status, 421)
  t.equal((await call(gateway.admin, { method: 'POST', path: '/console/who-may' })).status, 405)
})

t.test('a broken table and a broken shadow are told with their places, and forgotten once mended', async (t) => {
  const state = async (id: string) => {
    const { text } = await call(gateway.admin, { path: '/console/live' })
    return new RegExp(`<div id="${id}"[^>]*>(.*?)\n</div>|$`, 's').exec(text)?.[0] ?? ''
  }
  t.match(await state('policy-state'), 'The files are in force')
  t.match(await state('shadow-state'), 'The shadow policy is on trial')
  const before = /<code>([0-9a-f]{12})<\/code>/.exec(await state('policy-state'))?.[1]
  fixture.edit('data.yaml', (text) => `${text}\n  - { id: <b>bad</b> }\n`)
  await until(async () => (await state('policy-state')).includes('cannot be loaded'), 'the mistake')
  t.match(await state('policy-state'), /data\.yaml:\d+:\d+: routes\.\d+/)
  t.match(await state('policy-state'), before ?? '?', 'the table in force is the old one')
  t.match(await state('shadow-state'), 'The shadow policy is on trial')
  fixture.edit(join('..', 'policies-next', 'data.yaml'), (text) => `${text}\n  - 5\n`)
  await until(async () => (await state('shadow-state')).includes('cannot be loaded'), 'the shadow’s mistake')
  t.match(await state('shadow-state'), /The last good one stays on trial\..*policies-next\/data\.yaml:\d+:\d+/s)
  const fresh = `{ id: data.fresh, match: { path: /fresh }, surface: data, upstream: data, require: { role: org-owner } }`
  fixture.edit('data.yaml', (text) => text.replace('{ id: <b>bad</b> }', fresh))
  await until(async () => (await state('policy-state')).includes('The files are in force'), 'the mended table')
  t.notMatch(await state('policy-state'), before ?? '?', 'another text, another fingerprint')
  const { text } = await call(gateway.admin, { path: '/?path=/fresh&role=org-owner' })
  t.match(text, /<strong>allowed<\/strong>, by route <code>data\.fresh</, 'the new table is explained')
  t.match(text, '<code>/fresh</code>', 'and shown')
})

t.test('the page comes with the database down too, and says so', async (t) => {
  const { admin } = await startTestGateway(t, {})
  const { status, text } = await call(admin, { path: '/' })
  t.equal(status, 200)
  t.match(text, /database<\/strong>: failing/)
  t.match(text, 'Not known: the database does not answer.')
  t.notMatch(text, /postgres:\/\/|nobody@/)
  const right = { method: 'GET', path: '/datasets/5', organization: '1' }
  t.match(await readWhoMay(admin, right), { status: 200, fault: /does not list its members/, ids: [] })
})

t.test('a group of workers has one console, for all of them', async (t) => {
  const { admin, public: clients } = await startServing(t, { world, settings: { workers: 2 } })
  const right = { method: 'GET', path: '/datasets/5', organization: String(world.organizations.globex.id) }
  // A page leaves out the worker that does not answer within a second or two.
  await until(async () => (await readWhoMay(admin, right)).ids.length > 0, 'a worker that knows who may')
  const refusals = 24
  for (let count = 0; count < refusals; count++) await call(clients, { path: `/nowhere/${count}` })
  const read = async () => {
    const rows = await readRefusals(admin)
    const counts = rows.flatMap((row) => /\/nowhere\/(\d+)/.exec(row)?.[1] ?? []).map(Number)
    return { rows, counts }
  }
  let found = await read()
  await until(async () => {
    if (found.counts.length === refusals) return true
    found = await read()
    return false
  }, 'both workers')
  const { rows, counts } = found
  t.same(
    [...counts].sort((one, other) => one - other),
    Array.from({ length: refusals }, (_, index) => index),
    'all of them',
  )
  const times = rows.flatMap((row) => /\d\d:\d\d:\d\d\.\d{3}/.exec(row)?.[0] ?? [])
  t.same(times, [...times].sort().reverse(), 'newest first')
  const { text } = await call(admin, { path: '/?path=/datasets&role=org-member' })
  t.match(text, /id="verdict"><strong>allowed<\/strong>, by route <code>datasets\.list</)
  t.match(text, /2 workers · 0 restarts/)
  t.match(text, new RegExp(`<dt>Refused</dt><dd class="value">${refusals}<`))
  t.match(text, '<code>/datasets/:id</code>')
})
