import t from 'tap'
import { startAuditedGateway } from '../support/audit.ts'
import { evaluateAbility, may, prepareAuthzen, record, user } from '../support/authzen-fixture.ts'
import { type Call, call, type JsonValue } from '../support/client.ts'
import { openRawClient, startTestGateway, until } from '../support/gateway.ts'
import { bearer, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { users, organizations, objects, agents, serviceAccounts } = world
const { acme, globex } = organizations
const fixture = await prepareAuthzen(t, world)
const { database, addUser, addToken, evaluator, elsewhere } = fixture

/** The same numbers in every run; `SEED` gives others. */
function createRandom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return Math.floor((state / 0x80000000) * below)
  }
}

const seed = Number(process.env.SEED) || 28
const draw = createRandom(seed)
const pick = <Item>(items: readonly Item[]): Item => items[draw(items.length)] as Item

const owners = [...Object.values(users).map(({ id }) => id), null]
const organizationIds = [acme.id, acme.id, globex.id, organizations.initech.id]
const scatter = () => [pick(organizationIds), pick(owners), pick(['organization', 'public', 'private'])] as const

/** Objects of all organizations, owners and visibilities beside those of the demo. */
async function addObjects() {
  const named: { kind: string; id: string; path: string; organizationId: number }[] = []
  for (let index = 1; index <= 30; index++) {
    const datasetId = String(1_000 + index)
    const ofDataset = scatter()
    const parents = 'insert into resources_dataset (id, organization_id, owner_id, visibility) values ($1, $2, $3, $4)'
    await database.query(parents, [datasetId, ...ofDataset])
    const entryId = String(5_000 + index)
    const ofEntry = scatter()
    const entries =
      'insert into resources_entry (id, organization_id, owner_id, visibility, parent) values ($1, $2, $3, $4, $5)'
    await database.query(entries, [entryId, ...ofEntry, datasetId])
    const fileId = `file.${index}~${draw(1_000)}`
    const ofFile = scatter()
    const files = 'insert into resources_file (id, organization_id, owner_id, visibility) values ($1, $2, $3, $4)'
    await database.query(files, [fileId, ...ofFile])
    const datasetPath = `/objects/datasets/${datasetId}`
    named.push(
      { kind: 'dataset', id: datasetId, path: datasetPath, organizationId: ofDataset[0] },
      { kind: 'entry', id: entryId, path: `${datasetPath}/entries/${entryId}`, organizationId: ofEntry[0] },
      { kind: 'file', id: fileId, path: `/objects/files/${fileId}`, organizationId: ofFile[0] },
    )
  }
  return named
}

const scattered = await addObjects()
const ids = (kind: 'workflows' | 'jobs') => Object.entries(objects[kind])
const organizationOf = async (kind: string, id: string): Promise<number> =>
  (await database.query(`select organization_id from resources_${kind} where id = $1`, [id])).rows[0].organization_id
for (const [kind, plural] of [
  ['workflow', 'workflows'],
  ['job', 'jobs'],
] as const)
  for (const [, id] of ids(plural)) {
    const organizationId = await organizationOf(kind, String(id))
    scattered.push({ kind, id: String(id), path: `/objects/${plural}/${id}`, organizationId })
  }
for (const id of Object.values(agents)) {
  const { rows } = await database.query('select organization_id from agents where id = $1', [id])
  const [{ organization_id: organizationId }] = rows
  scattered.push({ kind: 'agent', id: String(id), path: `/agent/${id}/responses`, organizationId })
}

const serving = await startAuditedGateway(t, { world, settings: fixture.settings })
let ask = fixture.createAsk(serving.decision)

type Found = Readonly<{ type?: string; id?: string; name?: string }>

/** Everything that a question finds, page by page. */
async function findAll(wanted: string, question: object, limit?: number, headers?: Call['headers']): Promise<Found[]> {
  const found: Found[] = []
  for (let token = '', pages = 0; pages < 100; pages++) {
    const page = { ...(limit !== undefined && { limit }), ...(token !== '' && { token }) }
    const { status, json } = await ask(`search/${wanted}`, { ...question, page }, headers)
    if (status !== 200) throw new Error(`the page has the status ${status}`)
    const answer = json()
    if (answer.results.length > (limit ?? 100)) throw new Error('a page is too long')
    found.push(...answer.results)
    token = answer.page.next_token
    if (token === '') return found
  }
  throw new Error('the pages do not end')
}

const namesOf = (found: readonly Found[]): readonly string[] => found.map(({ id, name }) => id ?? name ?? '')

const whoMay = async (name: string, resource: object, headers?: Call['headers']): Promise<readonly string[]> =>
  namesOf(await findAll('subject', { subject: { type: 'user' }, action: { name }, resource }, undefined, headers))

const whatMay = async (subject: string, name: string, type: string, headers?: Call['headers']) =>
  namesOf(await findAll('resource', { ...may(subject, name, { type }) }, undefined, headers))

const actionsOf = async (subject: string, resource: object, headers?: Call['headers']) =>
  namesOf(await findAll('action', { subject: user(subject), resource }, undefined, headers))

t.test('evaluation and search agree with the gateway’s own answers, on random triples', async (t) => {
  const campaign = Number(process.env.CAMPAIGN) || 150
  t.comment(`SEED=${seed}`)
  const known = new Map<string, Promise<readonly string[]>>()
  const once = (key: string, find: () => Promise<readonly string[]>): Promise<readonly string[]> => {
    const found = known.get(key) ?? find()
    known.set(key, found)
    return found
  }
  const wrong: string[] = []
  let allowed = 0
  for (let count = 0; count < campaign; count++) {
    const [name, { jwt }] = pick(Object.entries(users))
    const { kind, id, path, organizationId } = pick(scattered)
    const [action, method] =
      kind === 'agent'
        ? ['execute', 'POST']
        : pick([
            ['read', 'GET'],
            ['write', 'PUT'],
          ] as const)
    const resource = { type: kind, id }
    const { status } = await call(serving.decision, {
      path: '/authorize',
      headers: {
        'x-original-method': method,
        'x-original-uri': path,
        'x-oauth-access-token': jwt,
        'x-organization-id': String(acme.id),
      },
    })
    const isDue = status === 200 && !['outsider', 'homeless'].includes(name)
    const { decision } = (await ask('evaluation', may(name, action, resource))).json()
    const subjects = await once(`who ${action} ${kind} ${id}`, () => whoMay(action, resource))
    const resources = await once(`what ${name} ${action} ${kind}`, () => whatMay(name, action, kind))
    const actions = await once(`how ${name} ${kind} ${id}`, () => actionsOf(name, resource))
    const told = {
      evaluation: decision === isDue,
      subject: subjects.includes(name) === isDue,
      // Public resources of others are found by their id alone.
      resource: resources.includes(id) === (isDue && organizationId === acme.id),
      action: actions.includes(action) === isDue,
    }
    allowed += isDue ? 1 : 0
    for (const [endpoint, isRight] of Object.entries(told))
      if (!isRight) wrong.push(`${endpoint}: ${name} ${action} ${kind} ${id} of ${organizationId}, and ${status}`)
  }
  t.same(wrong, [])
  t.ok(allowed > campaign / 10, 'some are allowed')
  t.ok(allowed < (campaign * 9) / 10, 'some are denied')
})

t.test('a search names only people and resources of the organization of the asking token', async (t) => {
  const mine = await whoMay('read', record('record-1'))
  t.ok(mine.includes('alice') && mine.includes('bob'))
  for (const name of ['carol', 'outsider', 'homeless', 'pdp', 'twin']) t.notOk(mine.includes(name), name)
  t.same(await whoMay('read', record('record-3')), [], 'of another')
  t.same(await whatMay('alice', 'read', 'record'), ['record-1', 'record-2'])
  t.same(await whatMay('carol', 'read', 'record'), [])
  t.same(await actionsOf('carol', record('record-3')), [])
  t.same(await actionsOf('alice', record('record-3')), [])
  const globexAsks = bearer(elsewhere)
  t.same(await whatMay('carol', 'read', 'record', globexAsks), ['record-3'])
  t.same(await whatMay('alice', 'read', 'record', globexAsks), [])
  const theirs = await whoMay('read', record('record-3'), globexAsks)
  t.ok(theirs.includes('carol') && theirs.includes('bob'))
  t.notOk(theirs.includes('alice'))
  t.same(await whoMay('read', record('record-1'), globexAsks), [])
})

t.test('an action search lists verbs of a kind, and methods of a path', async (t) => {
  t.same(await actionsOf('alice', record('record-1')), ['read', 'write'])
  t.same(await actionsOf('bob', record('record-1')), ['read'])
  t.same(await actionsOf('bob', { type: 'path', id: '/records/record-1' }), ['GET', 'HEAD'])
  t.same(await actionsOf('alice', { type: 'path', id: '/records/record-1' }), ['GET', 'HEAD', 'PUT'])
  t.same(await actionsOf('alice', { type: 'path', id: '/records/record-3' }), [])
  t.same(await actionsOf('alice', { type: 'constructor', id: '1' }), [])
  const readers = await whoMay('GET', { type: 'path', id: '/records/record-1' })
  t.same(readers, await whoMay('read', record('record-1')))
  t.same(await whatMay('alice', 'GET', 'path'), [], 'paths are not listed')
})

t.test('properties and context add no right', async (t) => {
  const properties = { role: 'org-owner', admin: true, organization_id: acme.id, status: 'active' }
  const claims = { subject: { type: 'user', properties }, action: { name: 'write', properties }, context: properties }
  const who = namesOf(await findAll('subject', { ...claims, resource: { ...record('record-1'), properties } }))
  t.same(who, await whoMay('write', record('record-1')))
  const bob = { ...user('bob'), properties }
  const what = { ...claims, subject: bob, resource: { type: 'record', properties } }
  t.same(await findAll('resource', what), [])
  const how = { subject: bob, resource: { ...record('record-1'), properties }, context: properties }
  t.same(namesOf(await findAll('action', how)), ['read'])
})

const refusedPages: readonly JsonValue[] = [
  'x',
  1,
  null,
  [],
  { limit: -1 },
  { limit: 1.5 },
  { limit: '1' },
  { limit: null },
  { token: 1 },
  { token: null },
  { token: 'x' },
  { token: 'x'.repeat(2_000) },
  { properties: 'x' },
]

t.test('pages are whole, have at most 100 results, and a wrong one is 400', async (t) => {
  for (let index = 0; index < 230; index++) await addUser(`many-${index}`, acme.id, 'org-member')
  const question = { subject: { type: 'user' }, action: { name: 'read' }, resource: record('record-1') }
  const everyone = namesOf(await findAll('subject', question))
  t.equal(everyone.filter((name) => name.startsWith('many-')).length, 230)
  t.equal(new Set(everyone).size, everyone.length, 'none twice')
  for (const limit of [7, 100])
    t.same(namesOf(await findAll('subject', question, limit)), everyone, `pages of ${limit}`)
  const first = (await ask('search/subject', question)).json()
  t.equal(first.results.length, 100, 'without a page in the question')
  t.not(first.page.next_token, '')
  const most = (await ask('search/subject', { ...question, page: { limit: 100_000 } })).json()
  t.equal(most.results.length, 100)
  const none = (await ask('search/subject', { ...question, page: { limit: 0 } })).json()
  t.same(none.results, [])
  t.not(none.page.next_token, '')
  for (const page of refusedPages)
    t.equal((await ask('search/subject', { ...question, page })).status, 400, JSON.stringify(page).slice(0, 40))
})

t.test('resources page in the order of their ids, whatever the type of these is', async (t) => {
  const { rows } = await database.query<{ id: string }>(
    "select id from resources_file where organization_id = $1 and visibility = 'organization' order by id",
    [acme.id],
  )
  const owned = rows.map(({ id }) => id)
  const files = await whatMay('owner', 'read', 'file')
  t.same(
    files.filter((id) => owned.includes(id)),
    owned,
  )
  for (const kind of ['dataset', 'entry', 'workflow', 'job', 'file', 'agent', 'record']) {
    const name = kind === 'agent' ? 'execute' : 'read'
    const all = await whatMay('owner', name, kind)
    t.ok(all.length > (kind === 'agent' ? 0 : 1), kind)
    t.same(namesOf(await findAll('resource', may('owner', name, { type: kind }), 1)), all, kind)
  }
})

t.test('a page token is good for its caller and its question alone', async (t) => {
  const question = { subject: { type: 'user' }, action: { name: 'read' }, resource: record('record-1') }
  const start = (await ask('search/subject', { ...question, page: { limit: 1 } })).json()
  const token = start.page.next_token
  const status = async (more: object, headers?: Call['headers'], wanted = 'subject') =>
    (await ask(`search/${wanted}`, { ...question, ...more, page: { token } }, headers)).status
  t.equal(await status({}), 200)
  t.equal(await status({ context: { a: 1 }, subject: { type: 'user', id: 'x' } }), 200, 'as one question')
  t.equal(await status({ action: { name: 'write' } }), 400, 'another action')
  t.equal(await status({ resource: record('record-2') }), 400, 'another resource')
  t.equal(await status({ subject: user('alice') }, undefined, 'resource'), 400, 'another endpoint')
  t.equal(await status({}, bearer(elsewhere)), 400, 'another organization')
  const second = await addToken(serviceAccounts.robotAdmin.id, evaluateAbility)
  t.equal(await status({}, bearer(second)), 400, 'another token of the account')
  const another = token.startsWith('A') ? 'B' : 'A'
  for (const changed of [token.slice(0, -4), `${token}AAAA`, another + token.slice(1), `${token.slice(0, -8)}AAAAAAAA`])
    t.equal((await ask('search/subject', { ...question, page: { token: changed } })).status, 400, 'a changed one')
})

t.test('a search is as bounded as an evaluation', async (t) => {
  const question = { subject: { type: 'user' }, action: { name: 'read' }, resource: record('record-1') }
  const status = async (body: unknown, headers?: Call['headers']) => (await ask('search/subject', body, headers)).status
  t.equal(await status({ ...question, context: { pad: 'x'.repeat(256 * 1024) } }), 413)
  const deep = (depth: number) =>
    JSON.stringify(question).replace(/\}$/, `,"context":${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}}`)
  t.equal(await status(deep(9)), 200)
  t.equal(await status(deep(10)), 400)
  t.equal(await status({ ...question, context: [] }), 400)
  t.equal(await status({ ...question, subject: { type: 'user', properties: 1 } }), 400)
  t.equal(await status(question, { ...bearer(evaluator), 'content-type': 'text/plain' }), 400)
  const get = await call(serving.decision, { path: '/access/v1/search/subject', headers: bearer(evaluator) })
  t.match(get, { status: 405, headers: { allow: 'POST' } })
})

t.test('a name that is not one member’s own is not told', async (t) => {
  await addUser('lone', acme.id, 'org-member')
  t.ok((await whoMay('read', record('record-1'))).includes('lone'))
  const id = await addUser('lone', acme.id, 'org-member')
  t.notOk((await whoMay('read', record('record-1'))).includes('lone'), 'a second one')
  await database.query('update users set username = null where id = $1', [id])
  t.ok((await whoMay('read', record('record-1'))).includes('lone'))
  await database.query("update users set username = 'lo' || chr(9) || 'ne' where id = $1", [id])
  t.notOk(
    (await whoMay('read', record('record-1'))).some((name) => name.includes('\t')),
    'a control character',
  )
})

t.test('a changed role and a changed organization are felt', async (t) => {
  const ofBob = `where organization_id = ${acme.id} and user_id = (
    select u.id from users u join role_assignments r on r.user_id = u.id
    where u.username = 'bob' and r.organization_id = ${acme.id})`
  const isWriter = async () => (await whoMay('write', record('record-1'))).includes('bob')
  t.notOk(await isWriter())
  await database.query(`update role_assignments set role = 'org-admin' ${ofBob}`)
  t.ok(await isWriter())
  await until(async () => (await actionsOf('bob', record('record-1'))).includes('write'), 'the new role')
  await database.query(`update role_assignments set role = 'org-member' ${ofBob}`)
  t.notOk(await isWriter())
  await database.query("update resources_record set organization_id = $1 where id = 'record-2'", [globex.id])
  t.same(await whatMay('alice', 'write', 'record'), ['record-1'])
  await until(async () => (await whoMay('read', record('record-2'))).length === 0, 'the new organization')
})

t.test('the audit tells who searched', async (t) => {
  const id = 'authzen-searched-1'
  await ask(
    'search/action',
    { subject: user('alice'), resource: record('record-1') },
    { ...bearer(evaluator), 'x-request-id': id },
  )
  const find = () => serving.audit().find(({ requestId }) => requestId === id)
  await until(async () => find() !== undefined, 'the line')
  t.match(find(), {
    listener: 'decision',
    outcome: 'allowed',
    route: 'authzen.search-action',
    subject: { id: serviceAccounts.robotAdmin.id },
    organizationId: acme.id,
    path: '/access/v1/search/action',
  })
})

const headOf = (id: string, length: number): string =>
  [
    'POST /access/v1/search/resource HTTP/1.1',
    'Host: pdp',
    `Authorization: Bearer ${evaluator}`,
    'Content-Type: application/json',
    `X-Request-Id: ${id}`,
    `Content-Length: ${length}`,
    '\r\n',
  ].join('\r\n')

t.test('searches beyond the share of their caller are 429, and room comes back', async (t) => {
  const question = { subject: user('alice'), action: { name: 'read' }, resource: { type: 'record' } }
  const search = () => ask('search/resource', question)
  t.equal((await search()).status, 200)
  await database.query('begin; lock table resources_record in access exclusive mode')
  let refusals = 0
  const asked = Array.from({ length: 6 }, async () => {
    const { status, headers } = await search()
    if (status === 429) refusals += 1
    return `${status} ${headers['retry-after']}`
  })
  await until(() => refusals === 4, 'the refusals')
  const early = await openRawClient(t, serving.decision)
  early.send(headOf('searched-early', 100))
  t.match(await early.until(/rate_limited/), /^HTTP\/1\.1 429 /, 'before its body')
  t.equal((await ask('evaluation', may('alice', 'GET', { type: 'path', id: '/status' }))).status, 200)
  await database.query('rollback')
  const told = ['200 undefined', '200 undefined', '429 1', '429 1', '429 1', '429 1']
  t.same((await Promise.all(asked)).sort(), told)
  t.equal((await search()).status, 200)
})

t.test('a search whose body comes slowly holds no place', async (t) => {
  const question = JSON.stringify({ subject: user('alice'), action: { name: 'read' }, resource: { type: 'record' } })
  const ids = ['searched-slowly-1', 'searched-slowly-2']
  const slow = await Promise.all(ids.map(() => openRawClient(t, serving.decision)))
  for (const [index, client] of slow.entries())
    client.send(headOf(ids[index] ?? '', question.length) + question.slice(0, 9))
  const isAudited = (id: string): boolean => serving.audit().some(({ requestId }) => requestId === id)
  await until(async () => ids.every(isAudited), 'their decisions')
  t.equal((await ask('search/resource', question)).status, 200)
  for (const client of slow) client.send(question.slice(9))
  for (const client of slow) t.match(await client.until(/results/), /^HTTP\/1\.1 200 /)
})

t.test('an id with a second line in another organization is not found', async (t) => {
  await database.query("insert into resources_record (id, organization_id) values ('record-9', $1)", [acme.id])
  t.ok((await whatMay('alice', 'read', 'record')).includes('record-9'))
  await database.query(`create or replace view sallyport_directory.resources_record as
    select id, organization_id, owner_id, visibility from resources_record
    union all select 'record-9', ${globex.id}, null, 'organization'`)
  t.same((await ask('evaluation', may('alice', 'read', record('record-9')))).json(), { decision: false })
  t.notOk((await whatMay('alice', 'read', 'record')).includes('record-9'))
})

t.test('two ids that the column takes for one are not found', async (t) => {
  await database.query('create extension if not exists citext')
  await database.query('drop view sallyport_directory.resources_record')
  await database.query(`create view sallyport_directory.resources_record as
    select id::citext as id, organization_id, owner_id, visibility from resources_record
    union all select unnest('{twin-record,TWIN-record}'::citext[]), ${acme.id}, null, 'organization'`)
  // A connection keeps the types of the statements that it has prepared.
  ask = fixture.createAsk((await startTestGateway(t, { world, settings: fixture.settings })).decision)
  for (const id of ['twin-record', 'TWIN-record'])
    t.same((await ask('evaluation', may('alice', 'read', record(id)))).json(), { decision: false }, id)
  const found = await whatMay('alice', 'read', 'record')
  t.ok(found.includes('record-1'))
  t.notOk(found.some((id) => id.toLowerCase() === 'twin-record'))
})
