import pg from 'pg'
import t from 'tap'
import { openDatabase } from '../../../gateway/directory/postgres/pool.ts'
import { archiveAgent, createAgent, listAgents } from '../../../gateway/directory/postgres/provision/agents.ts'
import { createCluster } from '../../../gateway/directory/postgres/provision/clusters.ts'
import { addMember, listMembers, removeMember } from '../../../gateway/directory/postgres/provision/members.ts'
import {
  archiveOrganization,
  createOrganization,
  listOrganizations,
  type OrganizationReference,
  requireOrganization,
} from '../../../gateway/directory/postgres/provision/organizations.ts'
import {
  createPerson,
  listServiceAccounts,
  type NewPerson,
  type PersonReference,
  setPersonDisabled,
} from '../../../gateway/directory/postgres/provision/people.ts'
import {
  createProvisioning,
  type Provision,
  ProvisionRefusal,
} from '../../../gateway/directory/postgres/provision/provisioning.ts'
import { createServiceAccount } from '../../../gateway/directory/postgres/provision/service-accounts.ts'
import type { DeclaredOrganization } from '../../../gateway/policy/organizations.ts'
import { adoptDatabase } from '../../support/adonis/adopted.ts'
import { backendRows, backendTables } from '../../support/adonis/tables.ts'
import { until } from '../../support/gateway.ts'
import { populate } from '../../support/population.ts'
import { bearer, oauth, startTestDatabase, startTestWorld } from '../../support/world.ts'

const world = await startTestWorld(t)
const { writer, insert } = await populate(t, world)
const { acme } = world.organizations

type OpenOptions = Readonly<{ lockTimeoutMs?: number; declared?: readonly DeclaredOrganization[] }>

/** Directories as the command line opens them. */
function open(url: string, { lockTimeoutMs, declared = [] }: OpenOptions = {}) {
  const settings = { url, pooler: 'none', poolSize: 2, connectTimeoutMs: 10_000, queryTimeoutMs: 10_000 } as const
  const database = openDatabase(settings, () => undefined)
  t.teardown(() => database.close())
  const byId = new Map(declared.map((one) => [one.id, one]))
  const bySlug = new Map(declared.map((one) => [one.slug, one]))
  return createProvisioning(database, { byId, bySlug }, lockTimeoutMs)
}

const provisioning = open(world.databaseUrl)
const audit = {
  actorId: null,
  credential: 'command-line',
  organizationId: null,
  clientAddress: 'command-line',
  requestId: 'provision-test',
}
/** A change is felt within a second; the rest is for a machine that does other things beside. */
const boundMs = 2_000

const write = <Result>(work: (provision: Provision) => Promise<Result>) => provisioning.change(audit, work)
const { read } = provisioning

const readTrail = async (action: string) =>
  (await writer.query('select * from audit_events where action = $1 order by id', [action])).rows

const countRows = async (table: string): Promise<number> =>
  (await writer.query(`select count(*)::int as count from ${table}`)).rows[0].count

/** A user by a first login, and the headers to come again with. */
async function logIn(subject: string, email = `${subject}@provision.example`) {
  const headers = oauth({ jwt: await world.mint({ sub: subject, email }) })
  const answer = await world.call({ path: '/users/me', headers })
  return { status: answer.status, id: answer.status === 200 ? Number(answer.json().data.id) : 0, headers }
}

type Headers = Readonly<Record<string, string>>

const readDatasets = async (headers: Headers, organization: number): Promise<number> =>
  (await world.call({ path: '/datasets', headers: { ...headers, 'x-organization-id': String(organization) } })).status

const create = (slug: string, externalId?: string, name = slug) =>
  write((provision) => createOrganization(provision, { slug, name, accountType: 'team', externalId }))

const add = (organization: OrganizationReference, person: PersonReference, role: string, replaces = false) =>
  write((provision) => addMember(provision, { organization, person, role, replaces }))

const refusal = (message: RegExp) => ({ name: 'ProvisionRefusal', message })

t.test('an organization is created once for each external id, in the trail, and never renamed', async (t) => {
  const first = await create('umbrella', 'crm-1', 'Umbrella')
  t.match(first, { isNew: true, row: { slug: 'umbrella', name: 'Umbrella', externalId: 'crm-1', memberCount: 0 } })
  t.match(await create('umbrella', 'crm-1', 'Umbrella'), { isNew: false, row: { id: first.row.id } })
  const trail = await readTrail('organization.created')
  t.match(trail, [{ actor_id: null, credential: 'command-line', organization_id: first.row.id }])
  t.equal(trail.length, 1, 'the second command left no trace')
  await t.rejects(
    create('umbrella', 'crm-1', 'Other'),
    refusal(/external id "crm-1" is organization \d+, which has another name; nothing was changed/),
  )
  await t.rejects(
    create('umbrella', 'crm-2', 'Other'),
    refusal(/slug "umbrella" is taken by organization \d+, which has the external id "crm-1"/),
  )
  await t.rejects(create('acme', 'crm-2'), refusal(/taken by organization \d+, which has no external id/))
  const kept = await read((provision) => requireOrganization(provision, { slug: 'umbrella' }))
  t.match(kept, { id: first.row.id, name: 'Umbrella', externalId: 'crm-1' })
})

t.test('no organization or member is made where the policy declares the organization', async (t) => {
  const { row: before } = await create('declared-later')
  const declare = (id: number, slug: string) => ({ id, slug, accountType: 'team', source: 'claims' }) as const
  const declared = [
    declare(1_000_000_000, 'partner'),
    declare(1_000_000_001, 'declared-later'),
    declare(acme.id, 'other'),
  ]
  const { change } = open(world.databaseUrl, { declared })
  const counts = async () => Promise.all(['organizations', 'role_assignments', 'audit_events'].map(countRows))
  const known = await counts()
  const refused = refusal(/may be taken for one that the policy declares.*nothing was changed: give another slug/)
  for (const slug of ['partner', 'Partner', 'p\u00e1rtner'])
    await t.rejects(
      change(audit, (provision) =>
        createOrganization(provision, { slug, name: slug, accountType: 'team', externalId: undefined }),
      ),
      refused,
      slug,
    )
  const { id } = await logIn('provision-declared')
  const logged = await counts()
  for (const organization of [{ id: before.id }, { slug: 'declared-later' }, { id: acme.id }])
    await t.rejects(
      change(audit, (provision) =>
        addMember(provision, { organization, person: { id }, role: 'org-member', replaces: false }),
      ),
      refused,
      JSON.stringify(organization),
    )
  t.same(await counts(), logged)
  t.equal(logged[0], known[0])
  const wanted = { slug: 'hooli', name: 'Hooli', accountType: 'team', externalId: undefined } as const
  t.match(await change(audit, (provision) => createOrganization(provision, wanted)), { isNew: true }, 'another slug')
})

t.test('one of two commands at once with one external id creates', async (t) => {
  const both = await Promise.all([create('twin', 'twin'), create('twin', 'twin')])
  t.same(both.map(({ isNew }) => isNew).sort(), [false, true])
  t.equal(both[0].row.id, both[1].row.id)
})

t.test('a command that waits too long for another says so', async (t) => {
  const hasty = open(world.databaseUrl, { lockTimeoutMs: 50 })
  const work = write(async () => {
    const late = hasty.change(audit, async () => undefined)
    await t.rejects(late, refusal(/^another command changes the directory now; run this one when that has ended$/))
  })
  await work
})

t.test('a change that is refused late takes all of the transaction back', async (t) => {
  const before = await countRows('organizations')
  const work = write(async (provision) => {
    await createOrganization(provision, { slug: 'half', name: 'Half', accountType: 'team', externalId: 'half' })
    throw new ProvisionRefusal('no')
  })
  await t.rejects(work, refusal(/^no$/))
  t.equal(await countRows('organizations'), before)
  t.match(await create('half', 'half'), { isNew: true })
})

t.test('a member is let in at once, and turned away within a second of the removal', async (t) => {
  const { id, headers } = await logIn('newcomer')
  t.equal(await readDatasets(headers, acme.id), 401)
  t.match(await add({ slug: 'acme' }, { id }, 'org-member'), {
    isNew: true,
    membership: { userId: id, role: 'org-member', organizationId: acme.id, userType: 'human' },
  })
  await until(async () => (await readDatasets(headers, acme.id)) === 200, 'the membership', boundMs)
  t.match(await add({ id: acme.id }, { id }, 'org-member'), { isNew: false })
  const members = await read((provision) => listMembers(provision, { slug: 'acme' }, id - 1))
  t.match(members[0], { userId: id, role: 'org-member' })
  const remove = () => write((provision) => removeMember(provision, { slug: 'acme' }, { id }))
  t.match(await remove(), { userId: id, role: 'org-member' })
  await until(async () => (await readDatasets(headers, acme.id)) === 401, 'the removal', boundMs)
  await t.rejects(remove(), refusal(/user \d+ is not a member of organization/))
  t.match(await readTrail('member.added'), [{ subject_id: id, organization_id: acme.id, role: 'org-member' }])
  t.match(await readTrail('member.removed'), [{ subject_id: id, organization_id: acme.id, role: 'org-member' }])
})

t.test('another role takes the place of the first on demand alone', async (t) => {
  const { id } = await logIn('riser')
  await add({ slug: 'acme' }, { id }, 'org-client')
  await t.rejects(add({ slug: 'acme' }, { id }, 'org-admin'), refusal(/is org-client of organization \d+ already/))
  t.match(await add({ slug: 'acme' }, { id }, 'org-admin', true), { isNew: true, membership: { role: 'org-admin' } })
  t.match(await readTrail('member.changed'), [{ subject_id: id, role: 'org-admin' }])
})

t.test('an address names a user only where one user has it verified', async (t) => {
  const email = 'shared@provision.example'
  const addByEmail = () => add({ slug: 'acme' }, { email }, 'org-client')
  const insertVerified = (address: string) =>
    insert("users (email, user_type, email_verified) values ($1, 'human', true)", [address])
  await t.rejects(addByEmail(), refusal(/no user has the address .*; name the user by its id, or by --issuer/))
  const { id: stranger } = await logIn('stranger', email)
  await t.rejects(addByEmail(), refusal(new RegExp(`may be another person's \\(${stranger} not verified\\); name`)))
  const verified = await insertVerified(email)
  t.match(await addByEmail(), { membership: { userId: verified } })
  const second = await insertVerified('Shared@provision.example')
  const both = `${verified} verified, ${second} verified, ${stranger} not verified`
  await t.rejects(addByEmail(), refusal(new RegExp(`more than one user has the verified address .* \\(${both}`)))
  const byIdentity = { issuer: world.oidc.issuer, subject: 'stranger' }
  t.match(await add({ slug: 'acme' }, byIdentity, 'org-client'), { membership: { userId: stranger } })
  await t.rejects(
    add({ slug: 'acme' }, { ...byIdentity, subject: 'unheard' }, 'org-client'),
    refusal(/no user has the subject "unheard" of issuer .*; log in once/),
  )
})

t.test('an archived organization has neither members nor public agents', async (t) => {
  const { id } = (await create('doomed')).row
  const { id: user, headers } = await logIn('survivor')
  await add({ id }, { id: user }, 'org-owner')
  const agent = await insert("agents (organization_id, name, is_public) values ($1, 'Open', true)", [id])
  const ask = async (): Promise<number> =>
    (await world.call({ method: 'POST', path: `/agent/${agent}/responses`, headers, body: '{}' })).status
  await until(async () => (await readDatasets(headers, id)) === 200, 'the membership', boundMs)
  await until(async () => (await ask()) === 200, 'the agent', boundMs)
  const archive = () => write((provision) => archiveOrganization(provision, { slug: 'doomed' }))
  t.type((await archive()).archivedAt, Date)
  await until(async () => (await readDatasets(headers, id)) === 401, 'the end of the membership', boundMs)
  await until(async () => (await ask()) === 403, 'the end of the agent', boundMs)
  await archive()
  t.match(await readTrail('organization.archived'), [{ organization_id: id }])
  t.equal((await readTrail('organization.archived')).length, 1)
  t.match(await readTrail('agent.archived'), [{ organization_id: id, agent_id: agent }])
  await t.rejects(add({ id }, { id: user }, 'org-member'), refusal(/organization \d+ \(doomed\) is archived/))
})

const createUser = (email: string, more: Partial<NewPerson> = {}) => {
  const names = { username: null, firstName: null, lastName: null }
  const rest = { isEmailVerified: false, identity: undefined, externalId: undefined }
  return write((provision) => createPerson(provision, { userType: 'human', email, ...names, ...rest, ...more }))
}

const disable = (person: PersonReference, isDisabled = true) =>
  write((provision) => setPersonDisabled(provision, person, isDisabled))

t.test('a user created before the first login is the one who logs in', async (t) => {
  const identity = { issuer: world.oidc.issuer, subject: 'expected' }
  const { row, isNew } = await createUser('expected@provision.example', { identity, externalId: 'hr-1' })
  t.ok(isNew)
  t.match(await logIn('expected'), { status: 200, id: row.id })
  t.match(await createUser('expected@provision.example', { identity, externalId: 'hr-1' }), { isNew: false })
  await t.rejects(
    createUser('expected@provision.example', { identity, externalId: 'hr-2' }),
    refusal(/"expected" of issuer .* is user \d+ already; nothing was created/),
  )
  await t.rejects(
    createUser('other@provision.example', { externalId: 'hr-1', firstName: 'Ada' }),
    refusal(/external id "hr-1" is user \d+, which has another address, name; nothing was changed/),
  )
  t.match(await readTrail('user.created'), [{ subject_id: row.id, credential: 'command-line' }])
  await t.rejects(
    createUser('expected@provision.example', { identity, externalId: 'hr-1', isEmailVerified: true }),
    refusal(/external id "hr-1" is user \d+, which has another state: its address is not verified; nothing was/),
  )
  await writer.query('update users set email_verified = true where id = $1', [row.id])
  for (const isEmailVerified of [true, false])
    t.match(await createUser('expected@provision.example', { identity, externalId: 'hr-1', isEmailVerified }), {
      isNew: false,
      row: { isEmailVerified: true },
    })
})

t.test('a disabled user is refused within a second, and the next login creates no new user', async (t) => {
  const { id, headers } = await logIn('leaver')
  await writer.query('update users set email_verified = true where id = $1', [id])
  const ask = async (given: Headers = headers) => (await world.call({ path: '/users/me', headers: given })).status
  t.equal(await ask(), 200)
  t.type((await disable({ issuer: world.oidc.issuer, subject: 'leaver' })).disabledAt, Date)
  await until(async () => (await ask()) === 401, 'the refusal', boundMs)
  const before = await countRows('users')
  t.equal((await logIn('leaver')).status, 401)
  t.equal((await logIn('leaver', 'other@provision.example')).status, 401, 'under another address')
  t.equal((await logIn('leaver-again', 'Leaver@provision.example')).status, 401, 'by another subject')
  t.equal(await countRows('users'), before)
  await t.rejects(createUser('leaver@provision.example'), refusal(/a disabled user has the verified address/))
  await t.rejects(add({ slug: 'acme' }, { id }, 'org-member'), refusal(/is disabled; "sallyport users enable"/))
  t.equal((await disable({ id }, false)).disabledAt, null)
  await until(async () => (await ask()) === 200, 'the return', boundMs)
  t.equal((await logIn('leaver')).id, id)
  t.match(await readTrail('user.disabled'), [{ subject_id: id }])
  t.match(await readTrail('user.enabled'), [{ subject_id: id }])
})

t.test('an address that a disabled user never verified stops no other login', async (t) => {
  const { id } = await logIn('pretender', 'victim@provision.example')
  await disable({ id })
  t.equal((await logIn('victim')).status, 200)
})

t.test('the tokens of a disabled service account are refused within a second', async (t) => {
  const { robot } = world.serviceAccounts
  const use = async () => (await world.call({ path: '/datasets', headers: bearer(robot.apiKey) })).status
  t.equal(await use(), 200)
  await disable({ id: robot.id })
  await until(async () => (await use()) === 401, 'the refusal', boundMs)
  await disable({ id: robot.id }, false)
  await until(async () => (await use()) === 200, 'the return', boundMs)
  const human = await logIn('human')
  const disableAccount = write((provision) => setPersonDisabled(provision, { id: human.id }, true, 'client-managed'))
  await t.rejects(disableAccount, refusal(/is human, not a service account/))
})

t.test('a service account is a member of its Enterprise organization from the start', async (t) => {
  const account = { role: 'org-member', email: 'ci@provision.example', username: 'ci', externalId: 'ci' }
  const createAccount = (slug: string, role = account.role) =>
    write((provision) => createServiceAccount(provision, { ...account, organization: { slug }, role }))
  const { row, isNew } = await createAccount('acme')
  t.match({ row, isNew }, { isNew: true, row: { userType: 'client-managed', username: 'ci', externalId: 'ci' } })
  t.equal((await createAccount('acme')).isNew, false)
  const listed = await read((provision) => listServiceAccounts(provision, row.id - 1, acme.id))
  t.match(listed, [{ id: row.id }])
  await t.rejects(createAccount('acme', 'org-admin'), refusal(/is user \d+, who is not org-admin of organization/))
  await t.rejects(createAccount('globex'), refusal(/globex.* is of type team, and only enterprise ones have/))
})

t.test('agents and clusters are created once, and an archived agent gets no request', async (t) => {
  const { headers } = await logIn('asker')
  const agent = { organization: { slug: 'acme' }, name: 'Helper', isPublic: true, externalId: 'helper' }
  const createHelper = (isPublic = true) => write((provision) => createAgent(provision, { ...agent, isPublic }))
  const { id } = (await createHelper()).row
  t.match(await createHelper(), { isNew: false, row: { id } })
  await t.rejects(createHelper(false), refusal(/which has another visibility/))
  const ask = async () =>
    (await world.call({ method: 'POST', path: `/agent/${id}/responses`, headers, body: '{}' })).status
  await until(async () => (await ask()) === 200, 'the agent', boundMs)
  await write((provision) => archiveAgent(provision, id))
  await until(async () => (await ask()) === 403, 'its end', boundMs)
  t.match((await read((provision) => listAgents(provision, id - 1, { slug: 'acme' })))[0], { id, name: 'Helper' })
  await t.rejects(
    write((provision) => archiveAgent(provision, 4_711)),
    refusal(/agent 4711 does not exist/),
  )
  const cluster = { organization: { slug: 'acme' }, name: 'EU', slug: 'eu', baseUrl: 'https://eu.example' }
  const createEu = (externalId: string) => write((provision) => createCluster(provision, { ...cluster, externalId }))
  t.match(await createEu('eu'), { isNew: true, row: { status: 'active', slug: 'eu', externalId: 'eu' } })
  t.match(await createEu('eu'), { isNew: false })
  await t.rejects(createEu('eu-2'), refusal(/the slug "eu" is taken by cluster \d+ of organization/))
  t.match(await readTrail('cluster.created'), [{ organization_id: acme.id }])
})

t.test('a list has a thousand rows at most, and goes on behind any of them', async (t) => {
  await writer.query(
    "insert into organizations (name, slug) select 'Many', 'many-' || n from generate_series(1, 1001) n",
  )
  const listed = await read((provision) => listOrganizations(provision, 0))
  t.equal(listed.length, 1_000)
  const rest = await read((provision) => listOrganizations(provision, listed.at(-1)?.id ?? 0))
  t.equal(listed.length + rest.length, await countRows('organizations'))
})

t.test('a refusal that names a row steers no terminal', async (t) => {
  const { id } = await logIn('steering')
  await insert('role_assignments (user_id, organization_id, role) values ($1, $2, $3)', [id, acme.id, '\u001b[2J'])
  await t.rejects(add({ slug: 'acme' }, { id }, 'org-member'), refusal(/is \?\[2J of organization/))
})

t.test("another program's tables are read, and never written", async (t) => {
  const databaseUrl = await startTestDatabase(t)
  const backend = new pg.Client({ connectionString: databaseUrl })
  await backend.connect()
  await backend.query(`${backendTables}; ${backendRows}`)
  await backend.end()
  const adopted = open((await adoptDatabase(t, databaseUrl)).gatewayUrl)
  const organizations = await adopted.read((provision) => listOrganizations(provision, 0))
  t.match(organizations, [{ slug: 'acme', accountType: 'enterprise', externalId: null, archivedAt: null }])
  const members = await adopted.read((provision) => listMembers(provision, { slug: 'acme' }, 0))
  t.match(members, [{ email: 'robot@acme.example', role: 'org-admin', disabledAt: null }])
  const agents = await adopted.read((provision) => listAgents(provision, 0, { slug: 'acme' }))
  t.match(agents, [{ name: null, isPublic: false }])
  const accounts = await adopted.read((provision) => listServiceAccounts(provision, 0, null))
  t.match(accounts, [{ email: 'robot@acme.example', identities: [] }])
  const work = (provision: Provision) => archiveOrganization(provision, { slug: 'acme' })
  await t.rejects(adopted.change(audit, work), refusal(/another program's tables .* make the change there/))
})
