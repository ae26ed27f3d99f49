import pg from 'pg'
import t, { type Test } from 'tap'
import { migrate } from '../../gateway/directory/postgres/migrate.ts'
import { runCommand } from '../support/command-line.ts'
import { startTestGateway, writeConfiguration } from '../support/gateway.ts'
import { startTestWorld } from '../support/world.ts'

// A database of a program from before 0.1.0 has the baseline's schema, and another ledger.

const world = await startTestWorld(t)

/** Checksums of the migrations of commit 4c320ffc. */
const checksums = {
  own: `
    8651c472c1cacbd8253442e3854b1a85
    c71402d9b5bb249ca8365c6a54b0181c
    971dc8d791d785b7d609ddc44adf3080
    235caf19331d7232624cfd467f751438
    79ba8ac6c5f9b7f50848c46619917325
    2087ad874f3d2fc735857ea0982a1145
    a77b7a2101f146380e108052f60b5f3d
    ec43171d1d495b9f54450f0987656493
    f0ffe95cb0780821ed8295b07901f3fb
    40b65a192bcccf94f9d8a8f039bccb9d
    3307875b594d188c7a9caf42534dc5a4
    949420c4fa8a1eb85f51635c6f57876b
    1a7513cb5f4a1d170a7ce0afa2e7ef46
    af6a41eb38afbb50773a1e08cab30c9a
    b53e820175a3dd85cb58bfb878bb1368
    098a470fe037aa08c46af4ba8872d9ac
    cb530ca62dc1348e8ce775e440472b51
    20e9187b178616a3086de56e49d8445a
    5447ad5926926dd23b26bb618dd53d35
    d6ed57879178ecc0a9e557501dcd8020
    d9e05aa675eb5a7dd591b513a877a87c
  `.trim(),
  adopted: `
    c675d89fb8bc19ada3c65fa122f4b120
    7a29fcfae17aaf6f8fbec78bc6558a94
    ea0b93087654d1994863c3259a1ba44b
    7e7518b84b130b92a15185ec5e4029b4
    34a862791f2adfb14b9dfb2bf501a998
    145186a901a6cd8944afecdaa6b968ba
    1c59552383dc4c014204c148da0541d8
    48ad18eed76e5c08be306cf305294ecd
    a05868a0348b32c80015d7a3764d90bc
    53a80460be3c6c6c4713ed32dd527157
    2923d9ec772e7cc6a0b9f38da4b1c474
    dcd1b5071a1bcf2a42f538941dee5512
    ab0702e489e4e9265a0a0c7d8817c4d3
    5c6d89f5ccd79458ded9521ba476bf63
    f7be0e63138dd9df798ce605eebd8505
  `.trim(),
}

type Kind = keyof typeof checksums

const ledgerOf = { own: 'sallyport_migrations', adopted: 'sallyport_directory.sallyport_migrations' }
const command = 'sallyport migrate --from-unreleased'

async function createUnreleased(t: Test, kind: Kind, name: string) {
  const administrator = new pg.Client({ connectionString: world.databaseUrl })
  await administrator.connect()
  await administrator.query(`create database ${name} template template0`).finally(() => administrator.end())
  const url = new URL(world.databaseUrl)
  url.pathname = `/${name}`
  await migrate(url.href, { adopt: kind === 'adopted' })
  const client = new pg.Client({ connectionString: url.href })
  await client.connect()
  t.teardown(() => client.end())
  const table = kind === 'own' ? 'issuer_keys' : 'sallyport_directory.issuer_keys'
  await client.query(`insert into ${table} values ('https://issuer.example', '{}', now())`)
  const ledger = ledgerOf[kind]
  await client.query(`alter table ${ledger} drop column minimum_version; revoke select on ${ledger} from public`)
  await client.query(
    `with gone as (delete from ${ledger} where version > 0)
      insert into ${ledger} (version, name, md5, run_at)
      select number, 'step', checksum, now() from unnest($1::text[]) with ordinality as steps (checksum, number)`,
    [checksums[kind].split(/\s+/)],
  )
  const readLedger = async () => (await client.query(`select * from ${ledger} order by version`)).rows
  const countData = async () => (await client.query(`select from ${table}`)).rowCount
  const config = writeConfiguration(t, { settings: { database: { url: url.href } } })
  const run = (...options: readonly string[]) => runCommand(['migrate', '--config', config, ...options])
  return { url: url.href, client, ledger, readLedger, countData, run }
}

const startOn = (t: Test, url: string) =>
  startTestGateway(t, { world, settings: { database: { url, connectTimeoutMs: 10_000, queryTimeoutMs: 10_000 } } })

for (const kind of ['own', 'adopted'] as const) {
  t.test(
    `a migration and a start refuse the ledger of an unreleased program, and name the command: ${kind}`,
    async (t) => {
      const { url, readLedger, run } = await createUnreleased(t, kind, `refused_${kind}`)
      const before = await readLedger()
      for (const options of [[], ['--adopt']]) {
        const { code, stderr } = await run(...options)
        t.equal(code, 1)
        if (kind === 'adopted' || options.length === 0) t.match(stderr, command)
      }
      t.same(await readLedger(), before)
      await t.rejects(startOn(t, url), { message: new RegExp(command) })
    },
  )

  t.test(`the command moves the ledger alone: ${kind}`, async (t) => {
    const { url, readLedger, countData, run } = await createUnreleased(t, kind, `moved_${kind}`)
    const { code, stdout, stderr } = await run('--from-unreleased')
    t.equal(code, 0, stderr)
    t.match(stdout, /^took over the schema of an unreleased program\n(?:created .*\n|missing .*\n)*done\n/)
    t.match(await readLedger(), [{ version: '0' }, { version: '100' }, { version: '101' }, { version: '102' }])
    t.equal(await countData(), 1)
    t.match(await migrate(url), { isMoved: false, applied: [] }, 'the checksums hold')
    const again = JSON.parse((await run('--from-unreleased', '--json')).stdout)
    t.match(again, { applied: [], created: [] })
    t.notOk('moved' in again)
    await t.resolves(startOn(t, url))
    const [{ minimum_version: minimum }] = await readLedger()
    t.equal(minimum, '0')
  })

  t.test(`the command refuses a ledger that is not complete, or another: ${kind}`, async (t) => {
    const { client, ledger, readLedger, run } = await createUnreleased(t, kind, `other_${kind}`)
    const newest = kind === 'own' ? 21 : 15
    await client.query(`update ${ledger} set md5 = 'other' where version = 3`)
    const other = await run('--from-unreleased')
    t.match(other, { code: 1, stderr: /not those of commit 4c320ffc/ })
    await client.query(`delete from ${ledger} where version = ${newest}`)
    const before = await readLedger()
    const missing = await run('--from-unreleased')
    t.match(missing, { code: 1, stderr: `migration ${newest - 1} of ${newest}` })
    t.same(await readLedger(), before)
  })
}

t.test('the command is an ordinary migration where there is nothing to take over', async (t) => {
  const { client, run } = await createUnreleased(t, 'own', 'fresh')
  await client.query('drop schema public cascade; drop schema sallyport_directory cascade; create schema public')
  t.match(await run('--from-unreleased'), { code: 0, stdout: /^applied 100 tables\n/ })
})
