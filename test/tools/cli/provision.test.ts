import t from 'tap'
import {
  readEmail,
  readIdentity,
  readIssuer,
  readOrganization,
  readPerson,
  readSlug,
  readText,
} from '../../../gateway/tools/provision/readings.ts'
import { type Ended, runCommand } from '../../support/command-line.ts'
import { writeConfiguration } from '../../support/gateway.ts'
import { populate } from '../../support/population.ts'
import { startTestWorld } from '../../support/world.ts'

const usage = (message: RegExp) => ({ name: 'UsageError', message })

t.test('a name that could steer a terminal, or hide in a table, is not taken', async (t) => {
  for (const text of ['a\nb', '\u001b[2J', '\u202egnp', ' padded', 'padded ', '', 'x'.repeat(256)])
    t.throws(() => readText('--name', text), usage(/^--name must be 1 to 255 characters/), JSON.stringify(text))
  t.equal(readText('--name', 'Zoë & Söhne'), 'Zoë & Söhne')
})

t.test('a slug is never taken for an id', async (t) => {
  for (const text of ['7', '7-7', 'Upper', 'a--b', '-a', 'a-', 'a b', ''])
    t.throws(() => readSlug('--slug', text), usage(/^--slug must be lower-case letters/), text)
  t.same(readOrganization('--organization', readSlug('--slug', '7-eleven')), { slug: '7-eleven' })
  t.same(readOrganization('--organization', '7'), { id: 7 })
})

t.test('a user is named by an id, an e-mail address, or an issuer with a subject: exactly one of them', async (t) => {
  t.same(readPerson({ user: '8' }), { id: 8 })
  t.same(readPerson({ issuer: 'https://a.example', subject: 's' }), { issuer: 'https://a.example', subject: 's' })
  t.same(readPerson({ email: 'a@b.example' }), { email: 'a@b.example' })
  for (const options of [{}, { user: '8', email: 'a@b.example' }, { user: '8', subject: 's' }])
    t.throws(() => readPerson(options), usage(/name the user by --user, by --issuer and --subject, or by --email/))
  for (const options of [{ issuer: 'https://a.example' }, { subject: 's' }])
    t.throws(() => readIdentity(options), usage(/belong together/))
  const stranger = { issuer: 'https://a.example', subject: 's' }
  t.throws(() => readIssuer(stranger, new Set(), ''), usage(/^issuer must be an issuer of the/), 'a file has no dashes')
  t.throws(() => readPerson({}, ''), usage(/^name the user by user, by issuer and subject, or by email$/))
  for (const text of ['a', 'a@', '@b', 'a@b@c', 'a b@c'])
    t.throws(() => readEmail('--email', text), usage(/must be an address/), text)
})

t.test('commands create an organization, its member and users, and show them', async (t) => {
  const world = await startTestWorld(t)
  const { insert, writer } = await populate(t, world)
  const config = writeConfiguration(t, { world })
  const run = (...words: readonly string[]): Promise<Ended> => runCommand([...words, '--config', config])
  const words = ['organizations', 'create', '--name', 'Umbrella', '--slug', 'umbrella', '--external-id', 'crm-1']
  t.match(await run(...words), { code: 0, stdout: /^created organization \d+ \(umbrella\)\n$/ })
  const { id, ...again } = JSON.parse((await run(...words, '--json')).stdout)
  t.match(again, { slug: 'umbrella', accountType: 'team', externalId: 'crm-1', archivedAt: null, isNew: false })
  const user = await insert("users (email, user_type) values ($1, 'human')", ['\u001b[2J\u009b31mada@umbrella.example'])
  const add = (role: string) =>
    run('members', 'add', '--organization', 'umbrella', '--user', String(user), '--role', role)
  t.match(await add('org-emperor'), { code: 2, stderr: /--role must be a role of the policy: org-client, org-member/ })
  t.match(await add('org-member'), { code: 0, stdout: `user ${user} is org-member of organization ${id}\n` })
  const { stdout } = await run('members', 'list', '--organization', 'umbrella')
  t.match(
    stdout,
    new RegExp(`^USER +ROLE +TYPE +EMAIL +STATE\n${user} +org-member +human +\\?\\[2J\\?31mada@.* active\n$`),
  )
  const found = (await run('users', 'find', '--user', String(user), '--json')).stdout
  t.match(found, /^[\x20-\x7e]+\n$/, 'JSON has no control character of a terminal either')
  t.equal(JSON.parse(found).email, '\u001b[2J\u009b31mada@umbrella.example')
  for (const [email, ...flags] of [['plain@umbrella.example'], ['known@umbrella.example', '--email-verified']]) {
    const created = await run('users', 'create', '--email', String(email), ...flags, '--json')
    const { id: createdId } = JSON.parse(created.stdout)
    const { rows } = await writer.query('select email_verified from users where id = $1', [createdId])
    t.same(rows, [{ email_verified: flags.length > 0 }], 'an address is verified only if the operator says so')
  }
  t.match(await run('organizations', 'show', 'nowhere'), { code: 1, stderr: /organization "nowhere" does not exist/ })
  t.match((await run('organizations', 'list')).stdout, /^ID +SLUG .*\n(?:.*\n)*.*umbrella .* 1 +crm-1 +active\n/)
})
