import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { startAuditedGateway } from '../support/audit.ts'
import { evaluateAbility, may, pdpUrl, prepareAuthzen, record, user } from '../support/authzen-fixture.ts'
import { type Call, call, type JsonValue } from '../support/client.ts'
import { openRawClient, until } from '../support/gateway.ts'
import { testVectors } from '../support/vectors.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { users, organizations, objects, serviceAccounts, agents, clusters } = world
const { acme, globex } = organizations
const { settings, database, addToken, evaluator, elsewhere, createAsk } = await prepareAuthzen(t, world)
const serving = await startAuditedGateway(t, { world, settings })
const ask = createAsk(serving.decision)
const json = { 'content-type': 'application/json' }

const answerOf = async (body: unknown, headers?: Call['headers']): Promise<unknown> => {
  const answer = await ask('evaluation', body, headers)
  return answer.status === 200 ? answer.json() : answer.status
}

t.test('only an API token that names decisions:evaluate may ask, and its role must grant it', async (t) => {
  const question = may('alice', 'read', record('record-1'))
  t.same(await answerOf(question), { decision: true })
  const { robot, robotAdmin } = serviceAccounts
  const rows: readonly (readonly [name: string, headers: Call['headers'], status: number])[] = [
    ['nothing', {}, 401],
    ['a session', oauth(users.owner), 403],
    ['a platform administrator', oauth(users.platformAdmin), 403],
    ['the widest shipped scope', bearer(robotAdmin.apiSecret), 403],
    ['all abilities', bearer(await addToken(robotAdmin.id, ['*'])), 403],
    ['a role without it', bearer(await addToken(robot.id, evaluateAbility)), 403],
    ['an organization that is another’s', { ...bearer(evaluator), 'x-organization-id': String(globex.id) }, 401],
  ]
  const endpoints = ['evaluation', 'evaluations', 'search/subject', 'search/resource', 'search/action']
  for (const endpoint of endpoints) {
    t.equal((await ask(endpoint, question)).status, 200, endpoint)
    for (const [name, headers, status] of rows)
      t.equal((await ask(endpoint, question, headers)).status, status, `${endpoint}: ${name}`)
  }
})

t.test('the organization of the asking token bounds subjects and resources', async (t) => {
  const read = (subject: string, id: string) => may(subject, 'read', record(id))
  t.same(await answerOf(read('alice', 'record-3')), { decision: false }, 'a foreign record')
  t.same(await answerOf(read('carol', 'record-1')), { decision: false }, 'a foreign subject')
  t.same(await answerOf(read('carol', 'record-3')), { decision: false }, 'a foreign subject of a foreign record')
  t.same(await answerOf(read('nobody', 'record-1')), { decision: false }, 'an absent subject')
  t.same(await answerOf(read('twin', 'record-1')), { decision: false }, 'a name of two')
  const globexAsks = (question: unknown) => answerOf(question, bearer(elsewhere))
  t.same(await globexAsks(read('alice', 'record-1')), { decision: false })
  t.same(await globexAsks(read('carol', 'record-3')), { decision: true })
  t.same(await globexAsks(may('bob', 'write', record('record-3'))), { decision: true }, 'the one of its organization')
  t.same(await answerOf(may('bob', 'write', record('record-1'))), { decision: false }, 'the one of its organization')
  const path = (id: string) => ({ type: 'path', id })
  t.same(await answerOf(may('alice', 'POST', path(`/organizations/${globex.id}/switch`))), { decision: false })
  t.same(await answerOf(may('alice', 'POST', path(`/organizations/${acme.id}/switch`))), { decision: true })
})

t.test('properties and context add no right', async (t) => {
  const properties = { role: 'org-owner', admin: true, organization_id: acme.id, status: 'active' }
  const question = {
    subject: { ...user('bob'), properties },
    action: { name: 'write', properties },
    resource: { ...record('record-1'), properties },
    context: { ...properties, role: 'admin' },
  }
  t.same(await answerOf(question), { decision: false })
  t.same(await answerOf({ ...question, action: { name: 'read', properties } }), { decision: true })
})

t.test('a question that names nothing is denied, and a malformed one is 400', async (t) => {
  const [subject, resource] = [user('alice'), record('record-1')]
  const denied = [
    may('alice', 'delete', resource),
    may('alice', 'read:', resource),
    may('alice', 'read', { type: 'unknown', id: '1' }),
    may('alice', 'read', { type: '__proto__', id: '1' }),
    may('alice', 'read', record("record-1' or '1'='1")),
    may('alice\u0000', 'read', resource),
    may('a'.repeat(256), 'read', resource),
    may('ALICE', 'read', resource),
    { ...may('alice', 'read', resource), subject: { type: 'group', id: 'alice' } },
    may('alice', 'GET', { type: 'path', id: '/nothing' }),
    may('alice', 'GET', { type: 'path', id: 'http://h/records/record-1' }),
    may('alice', 'GET', { type: 'path', id: '/records/../records/record-1' }),
    may('alice', 'GET', { type: 'path', id: '/records/record-1?id=2' }),
    may('alice', 'get', { type: 'path', id: '/records/record-1' }),
    may('alice', 'TRACE', { type: 'path', id: '/records/record-1' }),
  ]
  for (const question of denied) t.same(await answerOf(question), { decision: false }, JSON.stringify(question))
  const deep = (depth: number) =>
    `{"subject":${JSON.stringify(subject)},"action":{"name":"read"},"resource":${JSON.stringify(resource)},"context":${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}}`
  t.same(await answerOf(deep(9)), { decision: true })
  const bad: readonly unknown[] = [
    '',
    '[]',
    'null',
    '"x"',
    '{',
    '{"subject":1}',
    `${JSON.stringify(may('alice', 'read', resource))}x`,
    deep(10),
  ]
  for (const body of bad) t.equal(await answerOf(body), 400, String(body).slice(0, 40))
  for (const properties of ['x', 1, null, []])
    t.equal(await answerOf({ ...may('alice', 'read', resource), subject: { ...subject, properties } }), 400)
  t.equal(await answerOf({ ...may('alice', 'read', resource), context: [] }), 400)
  t.equal(await answerOf(Buffer.from([0x7b, 0xff, 0x7d]).toString('latin1')), 400)
  t.equal(
    (await ask('evaluation', may('alice', 'read', resource), { ...bearer(evaluator), 'content-type': 'text/plain' }))
      .status,
    400,
  )
  for (const [encoding, status] of [
    ['gzip', 415],
    ['identity, br', 415],
    ['', 415],
    ['identity', 200],
  ] as const)
    t.equal(
      (await ask('evaluation', may('alice', 'read', resource), { ...bearer(evaluator), 'content-encoding': encoding }))
        .status,
      status,
      encoding,
    )
  const large = JSON.stringify({ ...may('alice', 'read', resource), context: { pad: 'x'.repeat(256 * 1024) } })
  t.equal(await answerOf(large), 413)
})

t.test('a batch has at most 100 evaluations, and its semantic says where it stops', async (t) => {
  const question = may('alice', 'read', record('record-1'))
  const many = (count: number) => ({ ...question, evaluations: Array.from({ length: count }, () => ({})) })
  t.equal((await ask('evaluations', many(101))).status, 400)
  t.equal((await ask('evaluations', many(100))).json().evaluations.length, 100)
  const { subject } = question
  const resource = record('record-1')
  const evaluations = ['read', 'delete', 'write'].map((name) => ({ action: { name } }))
  const run = async (options?: unknown): Promise<unknown> => {
    const answer = await ask('evaluations', {
      subject,
      resource,
      evaluations,
      ...(options !== undefined && { options }),
    })
    return answer.status === 200 ? answer.json().evaluations.map(({ decision }: JsonValue) => decision) : answer.status
  }
  t.same(await run(), [true, false, true])
  t.same(await run({ evaluations_semantic: 'execute_all', other: 1 }), [true, false, true])
  t.same(await run({ evaluations_semantic: 'deny_on_first_deny' }), [true, false])
  t.same(await run({ evaluations_semantic: 'permit_on_first_permit' }), [true])
  for (const options of [{ evaluations_semantic: 'first' }, { evaluations_semantic: 1 }, 'execute_all', []])
    t.equal(await run(options), 400)
  const half = await ask('evaluations', { subject: { type: 'user' }, resource, evaluations })
  t.equal(half.status, 400, 'a default that is half of an entity')
  const odd = await ask('evaluations', {
    subject,
    resource,
    evaluations: [{ action: { name: 'read' } }, 'x', { action: 'read' }],
  })
  t.same(
    odd.json().evaluations.map(({ decision }: JsonValue) => decision),
    [true, false, false],
  )
})

t.test('the metadata name the configured address, whatever Host says', async (t) => {
  const answer = await call(serving.decision, {
    path: '/.well-known/authzen-configuration',
    headers: { host: 'evil.example', 'x-forwarded-host': 'evil.example' },
  })
  t.equal(answer.status, 200)
  t.match(answer.headers, { 'content-type': 'application/json' })
  t.same(answer.json(), {
    policy_decision_point: pdpUrl,
    access_evaluation_endpoint: `${pdpUrl}/access/v1/evaluation`,
    access_evaluations_endpoint: `${pdpUrl}/access/v1/evaluations`,
    search_subject_endpoint: `${pdpUrl}/access/v1/search/subject`,
    search_resource_endpoint: `${pdpUrl}/access/v1/search/resource`,
    search_action_endpoint: `${pdpUrl}/access/v1/search/action`,
  })
  const method = await call(serving.decision, { path: '/access/v1/evaluation', headers: bearer(evaluator) })
  t.match(method, { status: 405, headers: { allow: 'POST' } })
})

t.test('without authzen in the configuration, the endpoints do not exist', async (t) => {
  const names = ['evaluation', 'evaluations', 'search/subject', 'search/resource', 'search/action']
  for (const path of [...names.map((name) => `/access/v1/${name}`), '/.well-known/authzen-configuration'])
    t.equal((await call(world.decision, { method: 'POST', path, headers: json, body: '{}' })).status, 404, path)
})

t.test('the audit tells who asked', async (t) => {
  const id = 'authzen-asked-1'
  await ask('evaluation', may('alice', 'read', record('record-1')), { ...bearer(evaluator), 'x-request-id': id })
  const find = () => serving.audit().find(({ requestId }) => requestId === id)
  await until(async () => find() !== undefined, 'the line')
  t.match(find(), {
    listener: 'decision',
    outcome: 'allowed',
    route: 'authzen.evaluation',
    subject: { id: serviceAccounts.robotAdmin.id },
    credential: { kind: 'api-token' },
    organizationId: acme.id,
    path: '/access/v1/evaluation',
  })
})

const kinds = { dataset: 'datasets', workflow: 'workflows', job: 'jobs', file: 'files', entry: 'entries' } as const

t.test('each answer is that which the gateway gives to the subject itself', async (t) => {
  const resources = Object.entries(kinds).flatMap(([kind, plural]) =>
    [...Object.entries(objects[plural]).map(([named, id]) => [named, String(id)] as const), ['', '999'] as const].map(
      ([named, id]) => {
        const dataset = named === '' ? objects.datasets.acme : objects.datasets[named as keyof typeof objects.datasets]
        return {
          resource: { type: kind, id },
          path: kind === 'entry' ? `/objects/datasets/${dataset}/entries/${id}` : `/objects/${plural}/${id}`,
        }
      },
    ),
  )
  const requests = [
    ...resources.flatMap(({ resource, path }) => [
      { path, method: 'GET', asked: { resource, action: { name: 'read' } } },
      { path, method: 'PUT', asked: { resource, action: { name: 'write' } } },
      { path, method: 'DELETE', asked: { resource: { type: 'path', id: path }, action: { name: 'DELETE' } } },
    ]),
    ...Object.values(agents).map((id) => ({
      path: `/agent/${id}/responses`,
      method: 'POST',
      asked: { resource: { type: 'agent', id: String(id) }, action: { name: 'execute' } },
    })),
    ...[
      ...Object.values(clusters).map((id) => `/clusters/${id}/proxy/x`),
      ...['/status', '/public/x', '/admin/x', '/datasets', '/datasets/1', '/nothing', '/users/me', '/files//x'],
    ].map((path) => ({
      path,
      method: 'GET',
      asked: { resource: { type: 'path', id: path }, action: { name: 'GET' } },
    })),
  ]
  const wrong: string[] = []
  let allowed = 0
  for (const [name, { jwt }] of Object.entries(users)) {
    const answers: boolean[] = []
    for (let from = 0; from < requests.length; from += 50) {
      const evaluations = requests.slice(from, from + 50).map(({ asked }) => asked)
      const { json } = await ask('evaluations', { subject: user(name), evaluations })
      answers.push(...json().evaluations.map(({ decision }: JsonValue) => decision))
    }
    for (const [index, { path, method }] of requests.entries()) {
      const { status } = await call(serving.decision, {
        path: '/authorize',
        headers: {
          'x-original-method': method,
          'x-original-uri': path,
          'x-oauth-access-token': jwt,
          'x-organization-id': String(acme.id),
        },
      })
      const isMember = !['outsider', 'homeless'].includes(name)
      const wanted = isMember && status === 200
      allowed += wanted ? 1 : 0
      if (answers[index] !== wanted) wrong.push(`${name} ${method} ${path}: ${answers[index]}, and ${status}`)
    }
  }
  t.same(wrong, [])
  t.ok(allowed > 60, 'some are allowed')
})

t.test('a caller that loses its right while it sends its question gets no answer', async (t) => {
  const body = JSON.stringify(may('alice', 'read', record('record-1')))
  const begin = async (path: string) => {
    const token = await addToken(serviceAccounts.robotAdmin.id, evaluateAbility)
    const client = await openRawClient(t, serving.decision)
    const id = `slow-${path.replace('/', '-')}`
    client.send(
      `POST /access/v1/${path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer ${token}\r\nX-Request-ID: ${id}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, -1)}`,
    )
    await until(() => serving.audit().some(({ requestId }) => requestId === id), 'the permit')
    return { path, client, headers: bearer(token) }
  }
  const paths = ['evaluation', 'evaluations', 'search/subject', 'search/resource', 'search/action']
  const slow: Awaited<ReturnType<typeof begin>>[] = []
  for (const path of paths) slow.push(await begin(path))
  await database.query('update role_assignments set role = $1 where user_id = $2', [
    'org-member',
    serviceAccounts.robotAdmin.id,
  ])
  for (const { path, headers } of slow)
    await until(async () => (await ask('evaluation', body, headers)).status === 403, `the end of the right at ${path}`)
  await setTimeout(150)
  for (const { path, client } of slow) {
    client.send('}')
    t.match(await client.until(/\r\n\r\n/), /^HTTP\/1\.1 403 /, path)
  }
  await database.query('update role_assignments set role = $1 where user_id = $2', [
    'org-admin',
    serviceAccounts.robotAdmin.id,
  ])
  await until(async () => (await ask('evaluation', body)).status === 200, 'the right again')
})

t.test('a changed role and a changed organization are felt', async (t) => {
  const question = may('alice', 'write', record('record-2'))
  const answers = async (decision: boolean): Promise<boolean> =>
    JSON.stringify(await answerOf(question)) === JSON.stringify({ decision })
  t.ok(await answers(true))
  const ofAlice = `where user_id = (select id from users where username = 'alice')`
  const changes = [
    [`update role_assignments set role = 'org-member' ${ofAlice}`, false],
    [`update role_assignments set role = 'org-admin' ${ofAlice}`, true],
    [`update resources_record set organization_id = ${globex.id} where id = 'record-2'`, false],
    [`update resources_record set organization_id = ${acme.id} where id = 'record-2'`, true],
  ] as const
  for (const [sql, decision] of changes) {
    await database.query(sql)
    await until(() => answers(decision), sql)
  }
})

const listDecisions = (text: string): readonly (string | undefined)[] =>
  [...text.matchAll(/"decision": (true|false|<boolean>)/g)].map(([, word]) => word)

/** The cases of a certification document: requests in order, with the status and the body that are due. */
function readCases(document: string) {
  return document.split(/^### /m).flatMap((section) => {
    const [, anchor] = /\{#(c-[\d-]+)\}/.exec(section) ?? []
    const blocks = [
      ...section.matchAll(
        /\*\*Request[^*]*\*\*\s+~~~ json\n([\s\S]*?)~~~\s+\*\*Expected:\*\*([\s\S]*?)(?=\*\*Request|$)/g,
      ),
    ]
    return blocks.map(([, body = '', due = '']) => ({
      anchor,
      body,
      status: Number(/HTTP (\d+)/.exec(due)?.[1] ?? 200),
      decisions: listDecisions(/~~~[\s\S]*?~~~/.exec(due)?.[0] ?? due),
    }))
  })
}

/** Properties that a request states prove nothing here, so these levels are accepted in form alone. */
const ofProperties = new Set(['c-2-2-4', 'c-2-2-5', 'c-2-2-6', 'c-2-2-7', 'c-3-2-3', 'c-3-2-4', 'c-3-2-7'])

testVectors(t, 'authzen/scenario.md', 'the certification scenario: Basic, Batch and Discovery', async (t, text) => {
  const cases = readCases(String(text)).filter(({ anchor }) => /^c-[23]-/.test(anchor ?? ''))
  t.equal(new Set(cases.map(({ anchor }) => anchor)).size, 22, 'the sections with requests were found')
  for (const { anchor = '', body, status, decisions } of cases) {
    const path = anchor.startsWith('c-2') ? 'evaluation' : 'evaluations'
    const answer = await ask(path, body)
    t.equal(answer.status, status, `${anchor} ${body}`)
    if (status !== 200) continue
    t.match(answer.headers, { 'content-type': 'application/json' })
    const told: readonly unknown[] = (answer.json().evaluations ?? [answer.json()]).map(
      ({ decision }: JsonValue) => decision,
    )
    t.equal(told.length, decisions.length, anchor)
    for (const [index, due] of decisions.entries()) {
      const isFree = due === '<boolean>' || ofProperties.has(anchor)
      if (isFree) t.type(told[index], 'boolean', anchor)
      else t.equal(String(told[index]), due, `${anchor} ${body}`)
    }
  }
  const [first] = cases
  for (let count = 0; count < 5; count++) t.same((await ask('evaluation', first?.body)).json(), { decision: true })
  const echoed = await ask('evaluation', first?.body, {
    ...bearer(evaluator),
    'x-request-id': 'bfe9eb29-ab87-4ca3-be83-a1d5d8305716',
  })
  t.equal(echoed.headers['x-request-id'], 'bfe9eb29-ab87-4ca3-be83-a1d5d8305716')
})

type SearchCase = Readonly<{ anchor: string; path: string; body: string; status: number; due: readonly JsonValue[] }>

const searchedBySection: Readonly<Record<string, string>> = { 2: 'subject', 3: 'resource', 4: 'action', 5: 'subject' }

/** The cases of Search. Those of the last sections name their endpoint in words. */
function readSearchCases(document: string): readonly SearchCase[] {
  const block =
    /\*\*((?:Request|Subject Search|Resource Search|Action Search)[^*]*)\*\*[^~]*~~~ json\n([\s\S]*?)~~~\s+\*\*Expected:\*\*([\s\S]*?)(?=\n\*\*|$)/g
  return document.split(/^### /m).flatMap((section) => {
    const [, anchor = '', part = ''] = /\{#(c-4-(\d)-\d)\}/.exec(section) ?? []
    return [...(anchor === '' ? [] : section.matchAll(block))].map(([, label = '', body = '', due = '']) => ({
      anchor,
      path: `search/${searchedBySection[part] ?? /(Subject|Resource|Action) Search/.exec(label)?.[1]?.toLowerCase()}`,
      body,
      status: Number(/HTTP (\d+)/.exec(due)?.[1] ?? 200),
      due: JSON.parse(/~~~ json\n([\s\S]*?)~~~/.exec(due)?.[1] ?? '{"results":[]}').results,
    }))
  })
}

testVectors(t, 'authzen/scenario.md', 'the certification scenario: Search', async (t, text) => {
  const cases = readSearchCases(String(text))
  t.equal(cases.length, 21, 'the sections with requests were found')
  let answers: readonly JsonValue[] = []
  let token = ''
  for (const { anchor, path, body, status, due } of cases) {
    const answer = await ask(path, body.replace(/<next_token[^>]*>/, token))
    t.equal(answer.status, status, `${anchor} ${path} ${body}`)
    if (status !== 200) continue
    t.match(answer.headers, { 'content-type': 'application/json' })
    const { results, page } = answer.json()
    t.ok(Array.isArray(results), anchor)
    // Properties that a request states add no right, so these cases hold in form alone.
    if (['c-4-2-4', 'c-4-3-4', 'c-4-4-3'].includes(anchor)) continue
    for (const wanted of due)
      t.ok(
        results.some((found: JsonValue) => isSame(found, wanted)),
        `${anchor} ${body}`,
      )
    if (/^c-4-[234]-1$/.test(anchor)) answers = results
    else if (/^c-4-[234]/.test(anchor)) t.same(results, answers, `${anchor} is as without`)
    if (anchor === 'c-4-5-1') {
      t.equal(results.length, 1)
      token = page.next_token
      t.not(token, '', 'there is another page')
    }
    if (anchor === 'c-4-5-2') t.type(page.next_token, 'string')
    if (anchor.startsWith('c-4-6')) t.same(answer.json(), { results: [] })
  }
  const absent = { subject: user('nonexistent-user'), action: { name: 'read' }, resource: { type: 'record', id: '-' } }
  const unknown = { ...absent, subject: { type: 'spaceship', id: '1' }, resource: { type: 'moon', id: '1' } }
  for (const path of ['search/subject', 'search/resource', 'search/action'])
    for (const body of [absent, unknown]) t.same((await ask(path, body)).json(), { results: [] }, path)
})

const isSame = (one: JsonValue, other: JsonValue): boolean => JSON.stringify(one) === JSON.stringify(other)
