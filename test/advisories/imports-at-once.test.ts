import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import t, { type Test } from 'tap'
import { type Ended, runCommand, runProcess } from '../support/command-line.ts'
import { until, writeConfiguration } from '../support/gateway.ts'
import { nodeSwitches } from '../support/node-switches.ts'
import { populate } from '../support/population.ts'
import { startTestWorld } from '../support/world.ts'

const program = fileURLToPath(new URL('../../dist/gateway/main.js', import.meta.url))

const world = await startTestWorld(t)
const { writer } = await populate(t, world)
const config = writeConfiguration(t, { world })

const run = (...words: readonly string[]): Promise<Ended> => runCommand([...words, '--config', config])
const runBeside = (...words: readonly string[]): Promise<Ended> => runProcess([...words, '--config', config])

function writeFile(t: Test, slug: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'directory.yaml')
  writeFileSync(
    file,
    `organizations: [{ externalId: ${slug}, name: ${slug}, slug: ${slug}, type: enterprise }]
users: [{ externalId: ${slug}-ada, email: ada@${slug}.example }]
members: [{ organization: ${slug}, userExternalId: ${slug}-ada, role: org-owner }]
clusters: [{ externalId: ${slug}-eu, organization: ${slug}, name: EU, slug: eu, baseUrl: "https://eu.example" }]
`,
  )
  return file
}

async function rehearse(file: string): Promise<string> {
  const { stdout } = await run('import', file, '--dry-run', '--json')
  return JSON.parse(stdout).hash
}

const count = async () =>
  (
    await writer.query(`select (select count(*)::int from organizations) organizations,
      (select count(*)::int from users) users, (select count(*)::int from role_assignments) members,
      (select count(*)::int from clusters) clusters, (select count(*)::int from audit_events) events,
      (select count(*)::int from sallyport_directory.external_references) ids`)
  ).rows[0]

/** Sessions of commands that wait for a lock. */
const waiting = async (): Promise<readonly number[]> =>
  (
    await writer.query(`select pid from pg_stat_activity where datname = current_database()
      and wait_event_type = 'Lock' and query not like '%heartbeat%'`)
  ).rows.map(({ pid }) => pid)

/** The last table of the file, so that an import stops before its last entry. */
async function holdClusters(t: Test): Promise<() => Promise<void>> {
  // Its own connection: a transaction sees the other sessions as they were at its first look.
  const client = new pg.Client({ connectionString: world.databaseUrl })
  await client.connect()
  t.teardown(() => client.end())
  await client.query('begin')
  await client.query('lock table clusters in share row exclusive mode')
  return async () => void (await client.query('rollback'))
}

// Both look for the same external ids, find none, and would create each entry.
t.test('one of two imports at once creates, and the other changes nothing and says so', async (t) => {
  const file = writeFile(t, 'twins')
  const hash = await rehearse(file)
  const before = await count()
  const release = await holdClusters(t)
  const both = ['a', 'b'].map(() => runBeside('import', file, '--expect', hash))
  await until(async () => (await waiting()).length === 2, 'two imports that wait')
  await release()
  const [first, second] = (await Promise.all(both)).sort((a, b) => Number(a.code) - Number(b.code))
  t.match(first, { code: 0, stdout: /^4 changed, 0 as they are$/m })
  t.match(second, { code: 1, stderr: /would change other entries than expected .*; nothing was changed/ })
  const { organizations, users, members, clusters, events, ids } = before
  const grown = { organizations: organizations + 1, users: users + 1, members: members + 1, clusters: clusters + 1 }
  t.same(await count(), { ...grown, events: events + 4, ids: ids + 3 })
})

t.test('a killed import leaves nothing, and can be made again', async (t) => {
  const file = writeFile(t, 'phoenix')
  const hash = await rehearse(file)
  const before = await count()
  const release = await holdClusters(t)
  const words = [...nodeSwitches, program, 'import', file, '--expect', hash, '--config', config]
  const child = spawn(process.execPath, words, { stdio: 'ignore' })
  t.teardown(() => child.kill('SIGKILL'))
  await until(async () => (await waiting()).length === 1, 'the import in its last entry')
  const [pid] = await waiting()
  child.kill('SIGKILL')
  await once(child, 'exit')
  await release()
  const lives = async () => (await writer.query('select from pg_stat_activity where pid = $1', [pid])).rowCount === 1
  await until(async () => !(await lives()), 'the end of its session')
  t.same(await count(), before)
  t.match(await run('import', file, '--expect', hash), { code: 0, stdout: /^4 changed, 0 as they are$/m })
})

t.test('an external id never gives an entry other values', async (t) => {
  const organization = ['--organization', 'acme', '--external-id']
  const cases = [
    ['organizations', 'create', '--slug', 'stays', '--external-id', 'kept', '--name'],
    ['users', 'create', '--email', 'kept@acme.example', '--external-id', 'kept', '--first-name'],
    ['service-accounts', 'create', '--email', 'bot@acme.example', ...organization, 'kept-bot', '--name'],
    ['agents', 'create', ...organization, 'kept', '--name'],
    ['clusters', 'create', '--slug', 'stays', '--base-url', 'https://a.example', ...organization, 'kept', '--name'],
  ]
  for (const words of cases) {
    const [kind = ''] = words
    t.match(await run(...words, 'First'), { code: 0, stdout: /^created / }, kind)
    const before = await count()
    t.match(await run(...words, 'Second'), { code: 1, stderr: /which has another (?:user)?name; nothing was changed/ })
    t.match(await run(...words, 'First'), { code: 0, stdout: / is there already$/m }, `${kind}: it is as it was`)
    t.same(await count(), before)
  }
})
