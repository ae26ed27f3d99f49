import { randomUUID } from 'node:crypto'
import { copyFileSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { openRoute, startTestGateway, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { startPdp } from '../support/pdp.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { users, organizations, objects } = world
const { datasets, entries, workflows } = objects
const pdp = await startPdp(t)
const second = await startPdp(t)
const upstream = await startHttpUpstream(t)
const database = new pg.Client({ connectionString: world.databaseUrl })
await database.connect()
t.teardown(() => database.end())

const policies = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
t.teardown(() => rmSync(policies, { recursive: true, force: true }))
copyFileSync(fileURLToPath(new URL('../../policies/roles.yaml', import.meta.url)), join(policies, 'roles.yaml'))

/** Written beside and renamed over, as careful editors do. */
function writePolicy(name: string, content: object): void {
  writeFileSync(join(policies, `.${name}.new`), JSON.stringify(content))
  renameSync(join(policies, `.${name}.new`), join(policies, name))
}

const kind = { owner: true, visibility: true, privateRole: 'org-admin' }
const thing = { type: 'thing', param: 'id' }

const route = (path: string, more: object) => ({
  id: path.replaceAll(/\W+/g, '.').slice(1),
  match: { path },
  surface: 'platform',
  upstream: 'platform',
  require: { role: 'org-member', ability: 'datasets:read' },
  ...more,
})

writePolicy('routes.yaml', {
  resources: {
    dataset: { id: 'integer', ...kind, decision: { pdp: 'each', action: 'read' } },
    entry: { id: 'bigint', ...kind, parent: 'dataset', decision: { pdp: 'each' } },
    workflow: { id: 'uuid', ...kind },
  },
  routes: [
    route('/datasets/:id', { resource: { kind: 'dataset', param: 'id', public: true } }),
    route('/own/datasets/:id', {
      resource: { kind: 'dataset', param: 'id' },
      decision: { pdp: 'each', action: 'enter', resource: { type: 'place', param: 'id' } },
    }),
    route('/both/datasets/:id', {
      resource: { kind: 'dataset', param: 'id' },
      decision: { pdp: 'second', action: 'enter', resource: { type: 'place', param: 'id' } },
    }),
    route('/entries/:id', { resource: { kind: 'entry', param: 'id' } }),
    route('/held/:id', { decision: { pdp: 'held', resource: thing } }),
    route('/short/:id', { decision: { pdp: 'short', resource: thing } }),
    route('/workflows/:id', {
      resource: { kind: 'workflow', param: 'id' },
      decision: { pdp: 'held', action: 'read' },
    }),
  ],
})

const patient = 60_000

const gateway = await startTestGateway(t, {
  world,
  upstreams: { platform: { url: upstream.url } },
  settings: {
    policies: { directory: policies },
    decisionPoints: {
      each: { url: pdp.url, deadlineMs: patient, cacheMs: 0 },
      second: { url: second.url, deadlineMs: patient, cacheMs: 0 },
      held: { url: pdp.url, deadlineMs: patient, cacheMs: patient },
      short: { url: pdp.url, deadlineMs: patient, cacheMs: 300 },
    },
  },
})

const knock = async (path: string, user: { jwt: string } = users.member) => {
  const { status, text, json } = await call(gateway.public, { path, headers: oauth(user) })
  return status === 200 ? '200' : `${status} ${json().error?.code ?? text}`
}

let drawn = 0
const drawPath = (route: string): string => `/${route}/thing-${drawn++}`

const namesOf = (asked: (typeof pdp.asked)[number] | undefined) =>
  asked?.evaluations.map(({ action, resource: { type, id } }) => `${action.name} ${type} ${id}`)

t.beforeEach(() => {
  pdp.decide(() => true)
  pdp.headers({})
  second.decide(() => true)
})

/** The status of a request that must not reach the backend. */
async function knockInVain(t: Test, path: string, expected: string, name: string, user = users.member) {
  const arrived = upstream.ids().length
  t.equal(await knock(path, user), expected, name)
  t.equal(upstream.ids().length, arrived, `${name}: nothing reached the backend`)
}

const json = { 'content-type': 'application/json' }

t.test('several questions to one decision point go as one batch, and each must be answered yes', async (t) => {
  const path = `/own/datasets/${datasets.acme}`
  const before = pdp.asked.length
  t.equal(await knock(path), '200')
  const asked = pdp.asked.at(-1)
  t.same(new Set(pdp.asked.slice(before).map(({ url }) => url)), new Set(['/access/v1/evaluations']))
  t.same(Object.keys(JSON.parse(asked?.text ?? '')), ['evaluations'])
  t.same(namesOf(asked), [`enter place ${datasets.acme}`, `read dataset ${datasets.acme}`])
  for (const refused of ['place', 'dataset']) {
    pdp.decide(({ resource }) => resource.type !== refused)
    await knockInVain(t, path, '403 decision_refused', `no to ${refused}`)
  }
})

t.test('another number of decisions than was asked for permits nothing', async (t) => {
  const path = `/own/datasets/${datasets.acme}`
  const yes = { decision: true }
  for (const [name, answer] of [
    ['none', { evaluations: [] }],
    ['one', { evaluations: [yes] }],
    ['three', { evaluations: [yes, yes, yes] }],
    ['one for all', yes],
    ['one for all beside none', { ...yes, evaluations: [] }],
    ['names in place of a list', { evaluations: { 0: yes, 1: yes, length: 2 } }],
    ['a text in the list', { evaluations: [yes, { decision: 'true' }] }],
    ['null in the list', { evaluations: [yes, null] }],
    ['bare decisions', { evaluations: [true, true] }],
  ] as const) {
    pdp.decide(() => JSON.stringify(answer))
    await knockInVain(t, path, '503 decision_unavailable', name)
  }
  pdp.decide(() => (response) => void response.writeHead(500, json).end(JSON.stringify({ evaluations: [yes, yes] })))
  await knockInVain(t, path, '503 decision_unavailable', 'a failure with two decisions')
})

t.test('questions to two decision points are asked of each, and each must answer yes', async (t) => {
  const path = `/both/datasets/${datasets.acme}`
  t.equal(await knock(path), '200')
  t.same(namesOf(pdp.asked.at(-1)), [`read dataset ${datasets.acme}`])
  t.same(namesOf(second.asked.at(-1)), [`enter place ${datasets.acme}`])
  t.same([pdp, second].map(({ asked }) => asked.at(-1)?.url).sort(), Array(2).fill('/access/v1/evaluation'))
  for (const refusing of [pdp, second]) {
    refusing.decide(() => false)
    await knockInVain(t, path, '403 decision_refused', 'one no')
    refusing.decide(() => '{}')
    await knockInVain(t, path, '503 decision_unavailable', 'one without an answer')
    refusing.decide(() => true)
  }
})

t.test('a guarded object is asked about with its own facts, and with those of its ancestor', async (t) => {
  const organizationId = String(organizations.acme.id)
  t.equal(await knock(`/datasets/${datasets.acme}`), '200')
  t.same(pdp.asked.at(-1)?.evaluations[0]?.resource, {
    type: 'dataset',
    id: datasets.acme,
    properties: { organizationId, visibility: 'organization' },
  })
  t.equal(await knock(`/datasets/${datasets.acmePrivate}`, users.owner), '200')
  t.same(pdp.asked.at(-1)?.evaluations[0]?.resource.properties, {
    organizationId,
    ownerId: String(users.owner.id),
    visibility: 'private',
  })
  t.equal(await knock(`/datasets/${datasets.public}`), '200')
  t.same(pdp.asked.at(-1)?.evaluations[0]?.resource.properties, {
    organizationId: String(organizations.initech.id),
    visibility: 'public',
  })
  t.equal(await knock(`/entries/${entries.acme}`), '200')
  t.same(namesOf(pdp.asked.at(-1)), [`datasets:read entry ${entries.acme}`, `read dataset ${datasets.acme}`])
  pdp.decide(({ resource }) => resource.type !== 'dataset')
  await knockInVain(t, `/entries/${entries.acme}`, '403 decision_refused', 'no to the ancestor')
})

t.test('an object that the caller may not see is 404 without a question', async (t) => {
  const before = pdp.asked.length
  for (const id of [datasets.globex, datasets.initech, datasets.acmePrivate, '999', '01', 'x'])
    await knockInVain(t, `/datasets/${id}`, '404 resource_not_found', `dataset ${id}`)
  await knockInVain(t, `/own/datasets/${datasets.public}`, '404 resource_not_found', 'public elsewhere')
  await knockInVain(t, `/entries/${entries.globex}`, '404 resource_not_found', 'an entry')
  t.equal(pdp.asked.length, before)
})

/** Calls until a call is answered without a question. */
async function hold(path: string): Promise<void> {
  const isHeld = async (): Promise<boolean> => {
    const before = pdp.asked.length
    return (await knock(path)) === '200' && pdp.asked.length === before
  }
  await until(isHeld, 'a held answer')
}

t.test('a held answer ends with the credential that it was asked for', async (t) => {
  const path = drawPath('held')
  const { sub, email } = users.member
  const brief = { jwt: await world.mint({ sub, email, expiresIn: 3 }) }
  t.equal(await knock(path, brief), '200')
  await until(async () => (await knock(path, brief)).startsWith('401'), 'the end of the credential')
  const before = pdp.asked.length
  pdp.decide(() => false)
  t.equal(await knock(path), '403 decision_refused', 'the same question with another credential')
  t.equal(pdp.asked.length, before + 1)
})

t.test('held answers end with the policies in force', async (t) => {
  const path = drawPath('held')
  await hold(path)
  writePolicy('more.yaml', { routes: [{ ...openRoute, match: { path: '/more' } }] })
  await until(async () => (await knock('/more')) === '200', 'the new table')
  pdp.decide(() => false)
  t.equal(await knock(path), '403 decision_refused')
})

t.test('a change that the gateway hears of ends the answers about what has changed', async (t) => {
  const { acme, globex } = organizations
  const workflow = `/workflows/${workflows.acme}`
  const other = randomUUID()
  for (const [name, path, sql] of [
    ['the user', drawPath('held'), `update users set last_name = 'anew' where id = ${users.member.id}`],
    ['the organization', drawPath('held'), `update organizations set name = 'anew' where id = ${acme.id}`],
    // An answer knows its objects by their kind and organization, so another object of theirs ends it too.
    [
      'the resource',
      workflow,
      `insert into resources_workflow (id, organization_id) values ('${other}', ${acme.id});
      update resources_workflow set visibility = 'private' where id = '${other}'`,
    ],
  ] as const) {
    pdp.decide(() => true)
    await hold(path)
    pdp.decide(() => false)
    await database.query(sql)
    await until(async () => (await knock(path)) === '403 decision_refused', `a question after a change of ${name}`)
  }
  pdp.decide(() => true)
  t.equal(await knock(workflow, users.outsider), '404 resource_not_found')
  await database.query(`update resources_workflow set organization_id = ${globex.id} where id = '${workflows.acme}'`)
  const before = pdp.asked.length
  await until(async () => (await knock(workflow)) === '404 resource_not_found', 'the object that moved away')
  await until(async () => (await knock(workflow, users.outsider)) === '200', 'the object that moved here')
  t.ok(pdp.asked.length > before, 'its new organization has a question of its own')
})

t.test('an answer is held no longer than the decision point says, nor than the gateway is told', async (t) => {
  const held = drawPath('held')
  pdp.headers({ 'cache-control': 'max-age=1' })
  t.equal(await knock(held), '200')
  pdp.decide(() => false)
  await until(async () => (await knock(held)) === '403 decision_refused', 'a question after the time of the answer')
  pdp.decide(() => true)
  const short = drawPath('short')
  pdp.headers({ 'cache-control': 'max-age=60' })
  t.equal(await knock(short), '200')
  pdp.decide(() => false)
  await until(async () => (await knock(short)) === '403 decision_refused', 'a question after the time of the gateway')
  pdp.decide(() => true)
  await until(async () => (await knock(short)) === '200', 'a no is held no longer either')
})
