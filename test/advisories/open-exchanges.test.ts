import { connect } from 'node:net'
import pg from 'pg'
import t, { type Test } from 'tap'
import { startEndlessUpstream } from '../support/endless-upstream.ts'
import { startFairClock } from '../support/fair-clock.ts'
import { startRawUpstream, startTestGateway, until } from '../support/gateway.ts'

import { populate } from '../support/population.ts'
import { handshake, switching } from '../support/websocket.ts'
import { oauth, patience, startTestWorld } from '../support/world.ts'
import { untilHeard } from './until-heard.ts'

// Rights end while an exchange is open, or while its request is on its way. test/stages/recheck/ tests the parts with clocks and
// outages of its own.

const world = await startTestWorld(t)
const { acme } = world.organizations
const { writer, insert, addAccount } = await populate(t, world)
const upstream = await startEndlessUpstream(t)
const { url } = upstream
const gateway = await startTestGateway(t, {
  world,
  // On a busy machine a lookup takes a while.
  settings: { database: { url: world.databaseUrl, ...patience } },
  upstreams: { files: { url }, agents: { url }, platform: { url } },
})

const arrived = (path: string) => upstream.requests().filter((request) => request.path === path)

type Ask = (path: string, headers: Record<string, string>) => Promise<Response>

const askGateway: Ask = (path, headers) => fetch(gateway.public + path, { headers })
const askForProxy: Ask = (path, headers) =>
  fetch(`${gateway.decision}/authorize`, {
    headers: { ...headers, 'x-original-method': 'GET', 'x-original-uri': path },
  })

/** The status of a request whose token is revoked while the lookup of its cluster waits: its caller is known by then. */
async function revokeDuringLookup(t: Test, name: string, ask: Ask): Promise<number> {
  const { tokenId, headers } = await addAccount(name)
  const cluster = await insert(
    `clusters (organization_id, name, slug, base_url, status, last_heartbeat_at)
     values ($1, $2, $2, $3, 'active', now())`,
    [acme.id, name, url],
  )
  const isAnswered = async (wanted: number): Promise<boolean> => {
    const { status, body } = await ask('/v1/files/1/content', headers)
    await body?.cancel()
    return status === wanted
  }
  t.ok(await isAnswered(200))
  const locker = new pg.Client({ connectionString: world.databaseUrl })
  await locker.connect()
  t.teardown(() => locker.end())
  await locker.query('begin; lock table clusters in access exclusive mode')
  const sending = ask(`/clusters/${cluster}/proxy/${name}`, headers)
  await until(async () => {
    const waiting = `select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query like '%clusters%'`
    return (await writer.query(waiting)).rowCount
  }, 'the lookup')
  await writer.query('delete from auth_access_tokens where id = $1', [tokenId])
  await until(() => isAnswered(401), 'the end of the token')
  await untilHeard(gateway.admin)
  await locker.query('commit')
  return (await sending).status
}

t.test('a right that ends between the facts and the first byte forwards nothing', async (t) => {
  t.equal(await revokeDuringLookup(t, 'between', askGateway), 401)
  t.same(arrived('/between'), [])
})

t.test('a right that ends while a decision for a proxy waits gives no identity', async (t) => {
  t.equal(await revokeDuringLookup(t, 'decided', askForProxy), 401)
})

t.test('a notification from any login ends nothing that is still permitted', async (t) => {
  const { id, tokenId, headers } = await addAccount('notified')
  const response = await fetch(`${gateway.public}/v1/files/1/content`, { headers })
  const reader = response.body?.getReader()
  for (const [kind, of] of [
    ['token', tokenId],
    ['user', id],
    ['organization', acme.id],
  ])
    await writer.query("select pg_notify('sallyport_changes', $1)", [JSON.stringify({ kind, id: of })])
  await writer.query(`select pg_notify('sallyport_changes', '{"kind":"everything"}')`)
  const untilMs = performance.now() + 500
  while (performance.now() < untilMs) t.notOk((await reader?.read())?.done)
  await reader?.cancel()
})

t.test('a reader that takes nothing is reset, and gets none of what waited for it', async (t) => {
  const account = await addAccount('stalled')
  const { port, hostname } = new URL(gateway.public)
  const socket = connect({ port: Number(port), host: hostname })
  t.teardown(() => socket.destroy())
  const authorization = account.headers.authorization
  socket.write(`GET /v1/files/flood HTTP/1.1\r\nHost: h\r\nAuthorization: ${authorization}\r\n\r\n`)
  socket.pause()
  await until(() => arrived('/v1/files/flood').length > 0, 'the request')
  // The buffers between upstream and client are full then.
  await until(() => (arrived('/v1/files/flood')[0]?.stalledForMs() ?? 0) > 300, 'the stall')
  socket.on('error', () => {})
  const closed = new Promise((resolve) => socket.on('close', resolve))
  await writer.query('delete from auth_access_tokens where id = $1', [account.tokenId])
  await until(() => arrived('/v1/files/flood')[0]?.isClosed, 'the end of the upstream', 2_000)
  socket.resume()
  await closed
  // libuv may tell a reset as an end. The client's own buffer holds less than this, those of the gateway more.
  t.ok(socket.bytesRead < 1_000_000, `${socket.bytesRead} bytes`)
})

t.test('a WebSocket whose client takes nothing is reset, and gets none of what waited for it', async (t) => {
  const frames = Buffer.alloc(65_536).fill(Buffer.from([0x82, 0]))
  const passedMs = startFairClock(t)
  let filledAtMs = Number.POSITIVE_INFINITY
  let isClosed = false
  const raw = await startRawUpstream(t, (socket, soFar) => {
    if (!soFar.endsWith('\r\n\r\n')) return
    const fill = (): void => {
      while (socket.write(frames));
      filledAtMs = passedMs()
    }
    socket.on('drain', fill)
    socket.on('close', () => {
      isClosed = true
    })
    socket.write(switching)
    fill()
  })
  const { public: origin } = await startTestGateway(t, { world, upstreams: { platform: { url: raw.url } } })
  const account = await addAccount('stalled-socket')
  const { port, hostname } = new URL(origin)
  const socket = connect({ port: Number(port), host: hostname })
  t.teardown(() => socket.destroy())
  socket.on('error', () => {})
  socket.write(handshake('/socket', `Authorization: ${account.headers.authorization}\r\n`))
  socket.pause()
  await until(() => passedMs() - filledAtMs > 300, 'the stall')
  await writer.query('delete from auth_access_tokens where id = $1', [account.tokenId])
  await until(() => isClosed, 'the end of the upstream')
  const closed = new Promise((resolve) => socket.on('close', resolve))
  let last = Buffer.alloc(0)
  socket.on('data', (bytes: Buffer) => {
    last = Buffer.concat([last, bytes]).subarray(-4)
  })
  socket.resume()
  await closed
  t.ok(socket.bytesRead < 1_000_000, `${socket.bytesRead} bytes`)
  t.not(last[0], 0x88, 'no close frame after what was dropped')
})

t.test('changes of a tenant read no caller of another, many changes at once included', async (t) => {
  const response = await fetch(`${gateway.public}/v1/files/1/content`, { headers: oauth(world.users.member) })
  t.teardown(() => response.body?.cancel())
  const other = await insert("organizations (name, slug, account_type) values ('Bulk', 'bulk', 'team')")
  const countReads = async (): Promise<number> => {
    const text = await (await fetch(`${gateway.admin}/metrics`)).text()
    return Number(/_query_duration_seconds_count\{statement="find-by-identities"\} (\d+)/.exec(text)?.[1] ?? 0)
  }
  await writer.query(
    "insert into users (email, user_type) select 'many-' || n, 'client-managed' from generate_series(1, 300) n",
  )
  const countReadsOfChanges = async (): Promise<number> => {
    await writer.query(
      "insert into role_assignments (user_id, organization_id, role) select id, $1, 'org-member' from users where email like 'many-%'",
      [other],
    )
    await new Promise((resolve) => setTimeout(resolve, 200))
    const before = await countReads()
    await writer.query('delete from role_assignments where organization_id = $1', [other])
    await new Promise((resolve) => setTimeout(resolve, 300))
    return (await countReads()) - before
  }
  // If no proof came for almost a second that nothing has changed, every caller is rightly read.
  const reads: number[] = []
  while (reads.length < 10 && reads.at(-1) !== 0) reads.push(await countReadsOfChanges())
  t.equal(reads.at(-1), 0, `${reads}`)
})
