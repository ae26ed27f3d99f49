import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { parseCsv } from '../../../gateway/tools/provision/csv.ts'
import { readImportFile } from '../../../gateway/tools/provision/import-file.ts'
import { type Ended, runCommand } from '../../support/command-line.ts'
import { writeConfiguration } from '../../support/gateway.ts'
import { populate } from '../../support/population.ts'
import { startTestWorld } from '../../support/world.ts'

const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

function write(name: string, text: string): string {
  const file = join(folder, name)
  writeFileSync(file, text)
  return file
}

t.test('CSV is read by RFC 4180, with the place of each field', async (t) => {
  const rows = parseCsv('f.csv', '\ufeffa,b\r\n"x ""y""\n z",\n\nlast,1')
  t.same(
    rows.map((cells) => cells.map(({ text }) => text)),
    [
      ['a', 'b'],
      ['x "y"\n z', ''],
      ['last', '1'],
    ],
  )
  t.match(rows[1]?.[1], { line: 3, column: 5 })
  t.match(rows[2]?.[1], { line: 5, column: 6 })
  for (const [text, message] of [
    ['a,"b', /^f\.csv:1:3: the quote of this field is never closed$/],
    ['a\nb"c', /^f\.csv:2:2: a quote stands in a field without quotes/],
    ['"a"b', /^f\.csv:1:4: a comma or the end of the line must follow$/],
  ] as const)
    t.throws(() => parseCsv('f.csv', text), { name: 'ConfigurationError', message })
})

t.test('a mistake in a file is named with its line and column', async (t) => {
  for (const [name, text, message] of [
    [
      'a.yaml',
      'organizations:\n  - name: A\n    slug: a\n',
      /^a\.yaml:2:5: .* organizations needs the field "externalId"$/,
    ],
    [
      'b.yaml',
      'users:\n  - externalId: 0047\n    email: a@b.example\n',
      /^b\.yaml:2:17: externalId must be text; put it/,
    ],
    ['c.yaml', 'organisations: []\n', /^c\.yaml:1:16: "organisations" is not known; known are organizations/],
    ['d.csv', 'kind,externalId,nmae\norganizations,a,A\n', /^d\.csv:2:17: organizations have no field "nmae"/m],
    ['e.csv', 'kind,externalId\norganizations\n', /^e\.csv:2:1: has 1 fields, and the first line names 2$/],
    ['f.csv', 'externalId\na\n', /^f\.csv:1:1: the first line must name the fields/],
    ['g.csv', 'kind,externalId\ngroups,a\n', /^g\.csv:2:1: kind must be one of organizations/],
  ] as const)
    t.throws(() => readImportFile(write(name, text)), { name: 'ConfigurationError', message }, name)
})

t.test('a mistake that quotes the file does not steer the terminal', async (t) => {
  for (const [name, text] of [
    ['keys.yaml', '"\\e[2J\\x9b31m": []\n'],
    ['fields.yaml', 'organizations:\n  - { "\\e]0;x\\a": a }\n'],
    ['bytes.yaml', 'organizations: [\u009b31m'],
    ['header.csv', 'kind,externalId,\u001b[2J\u009b31m\norganizations,a,b\n'],
  ] as const) {
    const { code, stderr } = await runCommand(['import', write(name, text), '--dry-run'])
    t.equal(code, 2, stderr)
    t.notMatch(stderr.replaceAll('\n', ''), /\p{Cc}/u, name)
  }
})

t.test('a file is bounded, in bytes and in entries', async (t) => {
  t.throws(() => readImportFile(write('large.csv', 'x'.repeat(1_048_577))), { message: /may have 1048576; split it$/ })
  const many = `kind,externalId\n${'users,a\n'.repeat(5_001)}`
  t.throws(() => readImportFile(write('many.csv', many)), { message: /has 5001 entries, and may have 5000; split it$/ })
  t.throws(() => readImportFile(folder), /not a regular file/)
  const missing = { message: /none\.yaml cannot be read: ENOENT \(it does not exist\)\. Name the file to import\.$/ }
  t.throws(() => readImportFile(join(folder, 'none.yaml')), missing)
})

const yaml = `
members:
  - { organization: umbrella, userExternalId: ada, role: org-owner }
  - { organization: umbrella, email: known@umbrella.example, role: org-member }
organizations:
  - { externalId: umbrella, name: "Umbrella", slug: umbrella, type: enterprise }
users:
  - { externalId: ada, email: ada@umbrella.example, firstName: Ada }
serviceAccounts:
  - { externalId: ci, organization: umbrella, name: ci, email: ci@umbrella.example, role: org-member }
agents:
  - { externalId: helper, organization: umbrella, name: Helper, public: true }
clusters:
  - { externalId: eu, organization: umbrella, name: EU, slug: eu, baseUrl: "https://eu.example" }
`

t.test('an import shows its changes, and applies exactly those or none', async (t) => {
  const world = await startTestWorld(t)
  const { writer, insert } = await populate(t, world)
  const config = writeConfiguration(t, { world })
  const run = (...words: readonly string[]): Promise<Ended> => runCommand(['import', ...words, '--config', config])
  const count = async () =>
    (
      await writer.query(`select (select count(*)::int from organizations) organizations,
        (select count(*)::int from users) users, (select count(*)::int from role_assignments) members,
        (select count(*)::int from agents) agents, (select count(*)::int from clusters) clusters,
        (select count(*)::int from audit_events) events`)
    ).rows[0]
  const known = await insert(
    "users (email, user_type, email_verified) values ('known@umbrella.example', 'human', true)",
  )
  const file = write('directory.yaml', yaml)
  const before = await count()
  const rehearsed = await run(file, '--dry-run')
  t.match(rehearsed, { code: 0, stdout: /^\+ organizations externalId="umbrella" name="Umbrella" slug="umbrella"/ })
  t.match(rehearsed.stdout, `role="org-member" (user ${known})\n`)
  t.match(rehearsed.stdout, /role="org-owner" \(new user\)\n/)
  t.same(await count(), before, 'a dry run changes nothing')
  const hash = /--expect ([0-9a-f]{32})\n$/.exec(rehearsed.stdout)?.[1] ?? ''

  t.match(await run(file), { code: 2, stderr: /look first, by --dry-run; then --expect HASH/ })
  t.match(await run(file, '--expect', 'other'), { code: 1, stderr: new RegExp(`its hash is ${hash}\\); nothing was`) })
  t.same(await count(), before, 'another hash changes nothing')

  const broken = write(
    'broken.yaml',
    `${yaml}  - { externalId: x, organization: acme, name: X, slug: healthy, baseUrl: "https://x.example" }\n`,
  )
  t.match(await run(broken, '--dry-run'), {
    code: 1,
    stderr: /broken\.yaml:15:5: the slug "healthy" is taken by cluster/,
  })
  t.same(await count(), before, 'all or nothing')

  t.match(await run(file, '--expect', hash), { code: 0, stdout: /\n7 changed, 0 as they are\n$/ })
  const after = await count()
  const { rows } = await writer.query("select email_verified from users where email = 'ada@umbrella.example'")
  t.same(rows, [{ email_verified: false }], 'an address of a file counts as verified where the file says so alone')
  t.equal(after.organizations, before.organizations + 1)
  t.equal(after.members, before.members + 3)
  t.equal(after.events, before.events + 8, 'each deed is in the trail, the membership of the service account as well')
  const again = JSON.parse((await run(file, '--dry-run', '--json')).stdout)
  t.match(again, { changes: [], unchanged: 7, isApplied: false })
})
