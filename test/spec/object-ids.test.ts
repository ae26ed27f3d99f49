import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import t from 'tap'
import { call } from '../support/client.ts'
import { openRawClient, startTestGateway, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { users, objects, agents, organizations } = world
const own = String(objects.datasets.acme)

const guarded = { surface: 'platform', upstream: 'platform', require: { role: 'org-member' } }
const routes = [
  { id: 'by.header', match: { path: '/by-header' }, ...guarded, resource: { kind: 'dataset', header: 'x-dataset-id' } },
  { id: 'by.query', match: { path: '/by-query' }, ...guarded, resource: { kind: 'dataset', query: 'dataset' } },
  {
    id: 'by.nested',
    match: { path: '/by-query/:dataset/entry' },
    ...guarded,
    resource: { kind: 'entry', query: 'entry', parents: ['dataset'] },
  },
  { id: 'by.agent', match: { path: '/by-agent' }, ...guarded, resource: { kind: 'agent', header: 'x-agent' } },
]

const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
cpSync(fileURLToPath(new URL('../../policies', import.meta.url)), folder, { recursive: true })
writeFileSync(join(folder, 'ids.yaml'), JSON.stringify({ routes }))

const arrived: string[] = []
const upstream = await startHttpUpstream(t, (request, response) => {
  arrived.push(`${request.url}`)
  request.resume().on('end', () => response.end('seen'))
})
const serving = await startTestGateway(t, {
  world,
  upstreams: { platform: { url: upstream.url } },
  settings: { policies: { directory: folder } },
})

const member = oauth(users.member)

type Sent = Readonly<{ path: string; headers?: Readonly<Record<string, string | readonly string[]>>; method?: string }>

const ask = async ({ headers = {}, ...sent }: Sent) =>
  call(serving.public, { ...sent, headers: { ...member, ...headers } as Record<string, string> })

const bodyOf = ({ text, status }: Readonly<{ text: string; status: number }>): string => {
  const { error, message } = JSON.parse(text)
  return `${status} ${error.code} ${message}`
}

t.test('ids of a header or of the query are judged like those of a path, and reach no backend before', async (t) => {
  const { datasets, entries } = objects
  const rows: readonly (readonly [status: number, path: string, headers?: Sent['headers']])[] = [
    [200, '/by-header', { 'x-dataset-id': own }],
    [404, '/by-header', { 'x-dataset-id': String(datasets.globex) }],
    [404, '/by-header', { 'x-dataset-id': String(datasets.acmePrivate) }],
    [404, '/by-header', { 'x-dataset-id': '999' }],
    [404, '/by-header', { 'x-dataset-id': `0${own}` }],
    [404, '/by-header', { 'x-dataset-id': `${own}, ${own}` }],
    [404, '/by-header', { x_dataset_id: own }],
    [404, '/by-header', { 'x-dataset-id': own, x_dataset_id: String(datasets.globex) }],
    [404, '/by-header', { 'x-dataset-id': own, connection: 'x-dataset-id' }],
    [404, '/by-header'],
    [200, `/by-query?dataset=${own}`],
    [404, `/by-query?dataset=${datasets.globex}`],
    [404, `/by-query?dataset=${own}&dataset=${own}`],
    [404, `/by-query?dataset=${own}&DATASET=${datasets.globex}`],
    [404, '/by-query'],
    [200, `/by-query/${own}/entry?entry=${entries.acme}`],
    [404, `/by-query/${datasets.globex}/entry?entry=${entries.acme}`],
    [404, `/by-query/${own}/entry?entry=${entries.globex}`],
    [400, `/by-query/${own}/entry?entry=${entries.acme}&dataset=${own}`],
    [200, '/by-agent', { 'x-agent': String(agents.acme) }],
    [404, '/by-agent', { 'x-agent': String(agents.globex) }],
    [404, '/by-agent'],
  ]
  const faces = new Set<string>()
  for (const [status, path, headers = {}] of rows) {
    arrived.length = 0
    const answer = await ask({ path, headers })
    t.equal(answer.status, status, `${path} ${JSON.stringify(headers)}`)
    t.same(arrived, status === 200 ? [path] : [])
    if (status === 404) faces.add(bodyOf(answer))
  }
  t.equal(faces.size, 1)
  const repeated = [
    `GET /by-header HTTP/1.1`,
    'host: h',
    `x-oauth-access-token: ${users.member.jwt}`,
    'connection: close',
  ]
  const line = `x-dataset-id: ${own}`
  const client = await openRawClient(t, serving.public)
  client.socket.write(`${[...repeated, line, line].join('\r\n')}\r\n\r\n`)
  t.match(await client.closed(), /^HTTP\/1.1 404 /)
})

t.test(
  'a query parameter that a backend could take for the guarded one of the path is 400, whatever it names',
  async (t) => {
    for (const search of [`id=${own}`, 'ID=1', '%69d=1', 'a=1;id=2', 'id[]=1']) {
      const answer = await ask({ path: `/objects/datasets/${own}?${search}` })
      t.equal(
        bodyOf(answer),
        '400 target_misreadable Servers read this request target in different ways; write it plainly.',
      )
    }
    t.equal((await ask({ path: `/objects/datasets/${own}?a=id` })).status, 200)
    t.equal(
      (await call(serving.public, { path: `/objects/datasets/${own}?id=1` })).status,
      401,
      'the credential is first',
    )
  },
)

t.test('the decision listener judges the same ids', async (t) => {
  const decide = async (uri: string, headers: Readonly<Record<string, string>> = {}) =>
    (
      await call(serving.decision, {
        path: '/authorize',
        headers: { ...member, ...headers, 'x-original-method': 'GET', 'x-original-uri': uri },
      })
    ).status
  t.equal(await decide('/by-header', { 'x-dataset-id': own }), 200)
  t.equal(await decide('/by-header', { 'x-dataset-id': String(objects.datasets.globex) }), 404)
  t.equal(await decide(`/by-query?dataset=${own}`), 200)
  t.equal(await decide(`/by-query?dataset=${own}&dataset=${own}`), 404)
  t.equal(await decide(`/objects/datasets/${own}?id=1`), 400)
})

t.test('an open upload ends with the right to the object that its header or query names', async (t) => {
  const database = new pg.Client({ connectionString: world.databaseUrl })
  await database.connect()
  t.teardown(() => database.end())
  await database.query(
    `insert into resources_dataset (id, organization_id) values (400, ${organizations.acme.id}), (401, ${organizations.acme.id})`,
  )
  const begin = async (path: string, ...more: readonly string[]) => {
    const client = await openRawClient(t, serving.public)
    const lines = ['host: h', `x-oauth-access-token: ${users.member.jwt}`, 'content-length: 100', ...more]
    client.socket.write(`PUT ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\nhalf`)
    return client
  }
  arrived.length = 0
  const ended = await Promise.all([begin('/by-header', 'x-dataset-id: 400'), begin('/by-query?dataset=400')])
  const kept = await Promise.all([begin('/by-header', 'x-dataset-id: 401'), begin('/by-query?dataset=401')])
  await until(async () => arrived.length === 4, 'the uploads')
  await database.query(`update resources_dataset set organization_id = ${organizations.globex.id} where id = 400`)
  await Promise.all(ended.map((client) => client.closed()))
  await sleep(300)
  t.same(
    kept.map((client) => client.socket.destroyed),
    [false, false],
  )
})
