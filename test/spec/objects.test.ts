import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import t, { type Test } from 'tap'
import { checkDirectory } from '../../gateway/directory/postgres/check/check-directory.ts'
import { migrate } from '../../gateway/directory/postgres/migrate.ts'
import { statementsOf } from '../../gateway/directory/postgres/resources.ts'
import { loadPolicy } from '../../gateway/policy/load.ts'
import type { Answer, Call } from '../support/client.ts'
import { startFairClock } from '../support/fair-clock.ts'
import { openRawClient } from '../support/gateway.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { users, serviceAccounts, organizations, objects } = world
const database = new pg.Client({ connectionString: world.databaseUrl })
await database.connect()
t.teardown(() => database.end())

const upstreamNames = new Set(['platform', 'agents', 'files', 'graphql', 'data'])

const { acme, globex, initech } = organizations
await database.query("insert into role_assignments (user_id, organization_id, role) values ($1, $2, 'org-admin')", [
  users.outsider.id,
  initech.id,
])
const { robot, robotAdmin } = serviceAccounts

type Who = Readonly<{
  name: string
  headers: Readonly<Record<string, string>>
  organization: keyof typeof organizations | undefined
  /** From org-client, 1, to org-owner, 4. */
  rank: number
  isReadOnly?: boolean
  isOwner?: boolean
}>

const callers: readonly Who[] = [
  { name: 'owner', headers: oauth(users.owner), organization: 'acme', rank: 4, isOwner: true },
  {
    name: 'owner in globex',
    headers: { ...oauth(users.owner), 'x-organization-id': String(globex.id) },
    organization: 'globex',
    rank: 2,
    isOwner: true,
  },
  { name: 'admin', headers: oauth(users.admin), organization: 'acme', rank: 3 },
  { name: 'member', headers: oauth(users.member), organization: 'acme', rank: 2 },
  { name: 'client', headers: oauth(users.client), organization: 'acme', rank: 1 },
  { name: 'outsider', headers: oauth(users.outsider), organization: 'globex', rank: 4 },
  {
    name: 'outsider in initech',
    headers: { ...oauth(users.outsider), 'x-organization-id': String(initech.id) },
    organization: 'initech',
    rank: 3,
  },
  { name: 'platformAdmin', headers: oauth(users.platformAdmin), organization: 'acme', rank: 4 },
  { name: 'homeless', headers: oauth(users.homeless), organization: undefined, rank: 0 },
  { name: 'robot key', headers: bearer(robot.apiKey), organization: 'acme', rank: 2, isReadOnly: true },
  { name: 'robot secret', headers: bearer(robot.apiSecret), organization: 'acme', rank: 2 },
  { name: 'admin robot key', headers: bearer(robotAdmin.apiKey), organization: 'acme', rank: 3, isReadOnly: true },
  { name: 'admin robot secret', headers: bearer(robotAdmin.apiSecret), organization: 'acme', rank: 3 },
]

type Kind = keyof typeof objects
type Named = keyof typeof objects.datasets

const names: readonly Named[] = ['acme', 'acmePrivate', 'globex', 'initech', 'public']
const misspelledNumbers = [
  '01',
  '+1',
  '-1',
  '0',
  '1.0',
  '1e0',
  '0x1',
  '%201',
  '1%20',
  '9223372036854775808',
  '1'.repeat(30),
]
const misspelledUuids = [
  objects.workflows.acme.toUpperCase(),
  objects.workflows.acme.replaceAll('-', ''),
  `%7B${objects.workflows.acme}%7D`,
  '1',
]
const kinds: readonly Readonly<{ kind: Kind; absent: string; malformed: readonly string[] }>[] = [
  { kind: 'datasets', absent: '999', malformed: [...misspelledNumbers, '2147483648'] },
  { kind: 'entries', absent: '999', malformed: misspelledNumbers },
  { kind: 'workflows', absent: randomUUID(), malformed: misspelledUuids },
  { kind: 'jobs', absent: '999', malformed: misspelledNumbers },
  {
    kind: 'files',
    absent: 'none',
    malformed: ['report%20csv', 'report,csv', 'r%C3%A9port.csv', 'a'.repeat(129), '~%21'],
  },
]

const pathOf = (kind: Kind, id: string, datasetId = objects.datasets.acme): string =>
  kind === 'entries' ? `/objects/datasets/${datasetId}/entries/${id}` : `/objects/${kind}/${id}`

type Case = Readonly<{ path: string; named: Named | undefined }>

const casesOf = ({ kind, absent, malformed }: (typeof kinds)[number]): readonly Case[] => [
  ...names.map((named) => ({ path: pathOf(kind, objects[kind][named], objects.datasets[named]), named })),
  ...[absent, ...malformed].map((id) => ({ path: pathOf(kind, id), named: undefined })),
]

const wronglyNested: readonly Case[] = [
  ...names.flatMap((named) =>
    [...names.filter((other) => other !== named).map((other) => objects.datasets[other]), '999', '01'].map((id) => ({
      path: pathOf('entries', objects.entries[named], id),
      named: undefined,
    })),
  ),
]

/** The rules written anew, without code of the gateway. */
function expect({ organization, rank, isReadOnly, isOwner }: Who, method: string, named: Named | undefined): number {
  const isRead = method === 'GET'
  if (rank < (isRead ? 2 : 3)) return 403
  if (!isRead && isReadOnly) return 403
  if (named === undefined || organization === undefined) return 404
  if (named === 'public') return isRead || organization === 'initech' ? 200 : 404
  if (named === 'acmePrivate') return organization === 'acme' && (isOwner || rank >= 3) ? 200 : 404
  return named === organization ? 200 : 404
}

/** Everything of an answer that a client sees but the request id and the time. */
const faceOf = ({ status, rawHeaders, text }: Answer): string => {
  const id = JSON.parse(text).error.requestId
  return `${status} ${rawHeaders.join('\n').replace(/\n\w{3}, .* GMT/, '')} ${text}`.replaceAll(id, 'the id')
}

const send = async (request: Call): Promise<Answer & Readonly<{ mark: string }>> => {
  const mark = randomUUID()
  const answer = await world.call({ ...request, headers: { ...request.headers, 'x-mark': mark } })
  return { ...answer, mark }
}

t.test(
  'exactly the objects that the rules name reach a backend, over all kinds, callers, methods and ids',
  async (t) => {
    const due = new Set<string>()
    const faces = new Set<string>()
    const wrong: string[] = []
    const cases = [...kinds.flatMap(casesOf), ...wronglyNested]
    const judge = async (who: Who, method: string, { path, named }: Case): Promise<void> => {
      const wanted = expect(who, method, named)
      const request = { method, path, headers: who.headers }
      let answer = await send(request)
      // A busy machine's database may not answer in time; no backend hears of such a request.
      for (let again = 0; answer.status === 503 && again < 20; again++) answer = await send(request)
      if (wanted === 200) due.add(answer.mark)
      if (answer.status !== wanted) wrong.push(`${who.name} ${method} ${path}: ${answer.status}, not ${wanted}`)
      else if (wanted === 404) faces.add(faceOf(answer))
    }
    // Few at a time: the pool of connections is small.
    for (const who of callers)
      for (const method of ['GET', 'PUT', 'DELETE'])
        for (let from = 0; from < cases.length; from += 8)
          await Promise.all(cases.slice(from, from + 8).map((one) => judge(who, method, one)))
    t.same(wrong, [])
    t.equal(faces.size, 1, 'absent, foreign, private, malformed and wrongly nested are one answer')
    const arrived = (await world.recorded()).flatMap(({ headers }) => headers.filter(([name]) => name === 'x-mark'))
    t.same(arrived.map(([, mark]) => mark).sort(), [...due].sort())
    t.ok(due.size > 60, 'some pass')
  },
)

const countLookups = async (): Promise<number> => {
  const text = await (await fetch(`${world.admin}/metrics`)).text()
  const line = /^sallyport_database_query_duration_seconds_count\{[^}]*find-resource-dataset"[^}]*\} (\d+)$/m.exec(text)
  return Number(line?.[1] ?? 0)
}

t.test('an id in another spelling costs no lookup, and a known one costs one', async (t) => {
  const before = await countLookups()
  for (const id of misspelledNumbers) await send({ path: `/objects/datasets/${id}`, headers: oauth(users.member) })
  t.equal(await countLookups(), before)
  const unknown = { path: '/objects/datasets/987654', headers: oauth(users.member) }
  await Promise.all(Array.from({ length: 5 }, () => send(unknown)))
  t.equal(await countLookups(), before + 1)
})

const statusOf = async (path: string, headers = oauth(users.member)): Promise<number> =>
  (await send({ path, headers })).status

/** An absence counts for less than a second. */
const heldAbsentMs = 1_050

t.test('a foreign id is held for as long as an absent one', async (t) => {
  const countTwice = async (id: string): Promise<number> => {
    await sleep(heldAbsentMs)
    const before = await countLookups()
    await statusOf(`/objects/datasets/${id}`)
    await sleep(heldAbsentMs)
    await statusOf(`/objects/datasets/${id}`)
    return (await countLookups()) - before
  }
  t.equal(await countTwice('987655'), 2)
  t.equal(await countTwice(objects.datasets.globex), 2)
})

t.test('the database sends no fact of a foreign object, so that it takes the time of an absent one', async (t) => {
  const { resources } = loadPolicy(fileURLToPath(new URL('../../policies', import.meta.url)), upstreamNames)
  const ask = async (kind: string, id: string | number, organizationId: number | null) => {
    const known = resources.get(kind)
    if (!known) throw new Error(`no kind ${kind}`)
    const { rows } = await database.query(statementsOf(known).one.text, [id, organizationId])
    return rows.map(({ levels }) => (levels === null ? 'nothing' : levels.length))
  }
  const { datasets, entries } = objects
  t.same(await ask('dataset', datasets.globex, acme.id), ['nothing'])
  t.same(await ask('dataset', datasets.globex, null), ['nothing'])
  t.same(await ask('entry', entries.globex, acme.id), ['nothing'])
  t.same(await ask('dataset', datasets.globex, globex.id), [1])
  t.same(await ask('dataset', datasets.public, acme.id), [1])
  t.same(await ask('entry', entries.acme, acme.id), [2])
  t.same(await ask('dataset', 999, acme.id), [])
})

async function becomes(t: Test, path: string, status: number): Promise<number> {
  const passedMs = startFairClock(t)
  while ((await statusOf(path)) !== status && passedMs() < 5_000) await sleep(10)
  return passedMs()
}

t.test('a changed organization, visibility or parent is felt within a second', async (t) => {
  await database.query(
    `insert into resources_dataset (id, organization_id) values (100, ${acme.id}), (101, ${acme.id})`,
  )
  await database.query(`insert into resources_entry (id, organization_id, parent) values (1000, ${acme.id}, 100)`)
  const [dataset, entry] = ['/objects/datasets/100', '/objects/datasets/100/entries/1000']
  t.ok((await becomes(t, dataset, 200)) < 1_000)
  t.ok((await becomes(t, entry, 200)) < 1_000)
  const changes = [
    [`update resources_dataset set organization_id = ${globex.id} where id = 100`, 404, 404],
    [`update resources_dataset set organization_id = ${acme.id} where id = 100`, 200, 200],
    [`update resources_dataset set visibility = 'private' where id = 100`, 404, 404],
    [`update resources_dataset set owner_id = ${users.member.id} where id = 100`, 200, 200],
    ['update resources_entry set parent = 101 where id = 1000', 200, 404],
    ['update resources_entry set parent = 100 where id = 1000', 200, 200],
    ['delete from resources_dataset where id = 100', 404, 404],
  ] as const
  for (const [sql, ofDataset, ofEntry] of changes) {
    await database.query(sql)
    t.ok((await becomes(t, dataset, ofDataset)) < 1_000, sql)
    t.ok((await becomes(t, entry, ofEntry)) < 1_000, sql)
  }
})

t.test('an open upload ends within a second of a change that takes its object away, and no other does', async (t) => {
  await database.query(`insert into resources_dataset (id, organization_id) values (300, ${acme.id}), (301, ${acme.id});
    insert into resources_entry (id, organization_id, parent) values (3000, ${acme.id}, 300)`)
  const begin = async (path: string) => {
    t.ok((await becomes(t, path, 200)) < 1_000)
    const client = await openRawClient(t, world.public)
    const headers = Object.entries({ host: 'localhost', ...oauth(users.admin), 'content-length': '100' })
    const lines = headers.map(([name, value]) => `${name}: ${value}`)
    client.socket.write(`PUT ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\nhalf`)
    return client
  }
  const dataset = await begin('/objects/datasets/300')
  const entry = await begin('/objects/datasets/300/entries/3000')
  const other = await begin('/objects/datasets/301')
  await sleep(200)
  t.same(
    [dataset, entry, other].map((client) => client.socket.destroyed),
    [false, false, false],
  )
  await database.query(`update resources_dataset set organization_id = ${globex.id} where id = 300`)
  const passedMs = startFairClock(t)
  const told = await Promise.all([dataset.closed(), entry.closed()])
  t.ok(passedMs() < 1_000, `${passedMs()} ms`)
  t.same(told, ['', ''], 'bytes have touched the upstream: no answer denies it')
  await sleep(200)
  t.notOk(other.socket.destroyed)
})

t.test('the organization and the visibility of each ancestor count', async (t) => {
  await database.query(`insert into resources_dataset (id, organization_id, visibility) values
    (200, ${globex.id}, 'organization'), (201, ${acme.id}, 'private'), (202, ${globex.id}, 'public')`)
  await database.query(`insert into resources_entry (id, organization_id, visibility, parent) values
    (2000, ${acme.id}, 'organization', 200), (2001, ${acme.id}, 'public', 201), (2002, ${globex.id}, 'public', 200),
    (2003, ${acme.id}, 'organization', 202)`)
  const entries = [
    ['200', '2000', 404],
    ['201', '2001', 404],
    ['200', '2002', 404],
    ['202', '2003', 200],
  ] as const
  for (const [dataset, entry, status] of entries)
    t.equal(await statusOf(`/objects/datasets/${dataset}/entries/${entry}`), status, entry)
})

t.test(
  'an operator learns which view of a kind is missing or silent, and migrate creates what is missing',
  async (t) => {
    const { resources } = loadPolicy(fileURLToPath(new URL('../../policies', import.meta.url)), upstreamNames)
    const kinds = [...resources.values()]
    const check = async () => {
      const vocabulary = { roles: new Set<string>(), resources: kinds }
      const options = { url: world.databaseUrl, vocabulary, triesWrites: false, timeoutMs: 10_000 }
      const { problems } = await checkDirectory(options)
      return problems.filter(({ where }) => where.includes('resources_')).map(({ code, where }) => `${code} ${where}`)
    }
    t.same(await check(), [])
    t.same((await migrate(world.databaseUrl, { resources: kinds })).created, [])
    await database.query('drop trigger sallyport_update on resources_job')
    t.same(await check(), ['silent-table resources_job'])
    await database.query('drop view sallyport_directory.resources_job; drop table resources_job')
    t.same(await check(), ['missing-view sallyport_directory.resources_job'])
    t.same((await migrate(world.databaseUrl, { resources: kinds })).created, ['job'])
    t.same(await check(), [])
  },
)

t.test('an id that a view shows twice, without an organization or in another spelling names nothing', async (t) => {
  await database.query(`
    create collation blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    create or replace view sallyport_directory.resources_file as
      select id, organization_id, owner_id, visibility from resources_file
      union all values ('twice', ${acme.id}, null::integer, 'organization'), ('twice', ${acme.id}, null, 'organization'),
        ('nowhere', null, null, 'organization'), ('unknown', ${acme.id}, null, 'shared'), ('null', ${acme.id}, null, null),
        ('sound', ${acme.id}, null, 'organization')`)
  for (const id of ['twice', 'nowhere', 'unknown', 'null']) t.equal(await statusOf(`/objects/files/${id}`), 404, id)
  t.equal(await statusOf('/objects/files/sound'), 200)
  await database.query(`
    drop view sallyport_directory.resources_file;
    create view sallyport_directory.resources_file as
      select id collate blind as id, organization_id, owner_id, visibility from resources_file;
    insert into resources_file (id, organization_id) values ('Case', ${acme.id})`)
  t.ok((await becomes(t, '/objects/files/Case', 200)) < 1_000)
  t.equal(await statusOf('/objects/files/case'), 404, 'the database takes it for equal')
})
