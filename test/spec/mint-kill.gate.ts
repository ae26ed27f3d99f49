import pg from 'pg'
import t from 'tap'
import { call, type JsonValue } from '../support/client.ts'
import { until } from '../support/gateway.ts'
import { withOwner } from '../support/owner.ts'
import { startReplica } from '../support/replicas.ts'
import { leadThrough, startTcpProxy } from '../support/tcp-proxy.ts'
import { oauth, startTestWorld } from '../support/world.ts'
import { dataDirectoryOf, dumpTables, findRawTokens, hashSecret, readFiles } from './stored-tokens.ts'

const skip = process.platform === 'linux' ? false : 'looks at processes by /proc'

/** A start takes longest, so each gateway dies with many mints between COMMIT and response. */
const victims = 4
const mintsEach = 50

const world = await startTestWorld(t, { hasOwnServer: true })
const { admin } = world.users
const { robot } = world.serviceAccounts
const path = `/organizations/${world.organizations.acme.id}/users/${robot.id}/tokens`

const database = new pg.Pool({ connectionString: world.databaseUrl, max: 2 })
database.on('error', () => undefined)
t.teardown(() => database.end())

const mint = (origin: string, name: string) =>
  call(origin, {
    method: 'POST',
    path,
    headers: { ...oauth(admin), 'content-type': 'application/json', 'x-request-id': name },
    body: JSON.stringify({ name, scope: 'api-key' }),
  })

/** The messages for an insert and for an ended transaction, short enough to arrive in one piece. */
const insertComplete = Buffer.from('C\0\0\0\x0fINSERT 0 1\0', 'latin1')
const commitComplete = Buffer.from('C\0\0\0\x0bCOMMIT\0', 'latin1')

/** Kills a gateway with committed mints whose results it has not received; returns each client's outcome. */
const killBetween = (names: readonly string[]): Promise<readonly string[]> =>
  withOwner(async (owner) => {
    const minting = new Set<number>()
    let committed = 0
    const proxy = await startTcpProxy(owner, {
      port: Number(new URL(world.databaseUrl).port),
      hearServer: (bytes, { index }) => {
        if (bytes.includes(insertComplete)) minting.add(index)
        if (!minting.has(index) || !bytes.includes(commitComplete)) return 'pass'
        committed += 1
        return 'hold'
      },
    })
    const url = leadThrough(proxy, world.databaseUrl)
    // Waits for all commits on any machine: the held responses must not be missed.
    const patience = { connectTimeoutMs: 60_000, queryTimeoutMs: 60_000 }
    // Each held commit occupies a connection.
    const settings = { database: { url, poolSize: mintsEach + 2, ...patience } }
    const victim = await startReplica(owner, { world, settings })
    const ends = names.map((name) =>
      mint(victim.public, name).then(
        ({ status }) => `answered ${status}`,
        ({ code }) => code as string,
      ),
    )
    await until(() => committed === names.length, 'the commits', 60_000)
    await victim.kill()
    return Promise.all(ends)
  })

async function listTokens(): Promise<readonly number[]> {
  const ids: number[] = []
  for (let page = 1, lastPage = 1; page <= lastPage; page++) {
    const answer = await world.call({ path: `${path}?perPage=100&page=${page}`, headers: oauth(admin) })
    const { data, meta }: JsonValue = answer.json()
    ids.push(...data.map(({ id }: { id: number }) => id))
    lastPage = meta.lastPage
  }
  return ids
}

const names = Array.from({ length: victims * mintsEach }, (_, index) => `cut-${index}`)

t.test('200 mints cut off between COMMIT and answer are all there, once, and listed', { skip }, async (t) => {
  const groups = Array.from({ length: victims }, (_, index) => names.slice(index * mintsEach, (index + 1) * mintsEach))
  const ends: string[] = []
  const startedMs = performance.now()
  // One after another: each holds a connection of the database for every mint.
  for (const group of groups) ends.push(...(await killBetween(group)))
  t.comment(`${victims} gateways killed in ${((performance.now() - startedMs) / 1000).toFixed(1)} s`)

  const { rows } = await database.query<{ name: string; tokens: number[]; events: number[] }>(
    `select name,
      array(select id from auth_access_tokens t where t.name = n.name) as tokens,
      array(select token_id from audit_events e where e.request_id = n.name and e.action = 'token.minted') as events
    from unnest($1::text[]) as n (name)`,
    [names],
  )
  const listed = await listTokens()
  const named = (isSo: (row: (typeof rows)[number]) => boolean) => rows.filter(isSo).map(({ name }) => name)
  t.same(
    {
      cut: ends.filter((end) => end === 'ECONNRESET').length,
      lost: named(({ tokens }) => tokens.length === 0),
      duplicate: named(({ tokens }) => tokens.length > 1),
      withoutTheirOneEvent: named(({ tokens, events }) => events.length !== 1 || events[0] !== tokens[0]),
      unlisted: named(({ tokens }) => listed.filter((id) => id === tokens[0]).length !== 1),
    },
    { cut: names.length, lost: [], duplicate: [], withoutTheirOneEvent: [], unlisted: [] },
  )
})

t.test('no raw token is anywhere in the database: not in a row, not in a file', { skip }, async (t) => {
  const known = await Promise.all(
    names.slice(0, 20).map(async (name) => {
      let answer = await mint(world.public, `kept-${name}`)
      // A busy machine's database may not answer in time.
      while (answer.status === 503) answer = await mint(world.public, `kept-${name}`)
      return answer.json().data.token as string
    }),
  )
  const { rows } = await database.query<{ hash: string }>('select hash from auth_access_tokens')
  const hashes = new Set(rows.map(({ hash }) => hash))
  const parts = known.map((token) => token.split('.')[1] ?? '')
  const secrets = parts.map((part) => Buffer.from(part, 'base64url').toString())
  t.ok(secrets.every((secret) => hashes.has(hashSecret(secret))))
  for (const trace of [...known, ...parts, ...secrets])
    t.ok(findRawTokens(`"x${trace}7, ${'y'.repeat(80)}`, hashes).length > 0, 'the search would find it')

  const found: string[] = []
  const unseen = new Set(hashes)
  const search = (place: string, text: string): void => {
    if (findRawTokens(text, hashes).length > 0) found.push(place)
    if ([...known, ...parts, ...secrets].some((trace) => text.includes(trace))) found.push(place)
    for (const hash of unseen) if (text.includes(hash)) unseen.delete(hash)
  }
  for (const { place, text } of await dumpTables(database)) search(place, text)
  t.equal(unseen.size, 0, 'the dump holds every hash')
  for (const hash of hashes) unseen.add(hash)
  const directory = dataDirectoryOf(Number(world.world.postgres.pid()))
  // An orderly stop writes everything to disk; the server starts again three seconds later.
  process.kill(Number(world.world.postgres.pid()), 'SIGINT')
  await until(() => world.world.postgres.pid() === undefined, 'the shutdown', 20_000)
  for (const { place, text } of readFiles(directory)) search(place, text)
  t.equal(unseen.size, 0, 'the files hold every hash')
  t.same(found, [])
})
