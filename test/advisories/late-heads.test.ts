import { renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { GatewayError } from '../../gateway/base/errors/gateway-error.ts'
import { createEngine } from '../../gateway/http/create-engine.ts'
import { PreparedHeaders } from '../../gateway/http/prepared-headers.ts'
import { createForward } from '../../gateway/stages/forward/forward.ts'
import { createAuthority, testCertificates } from '../support/certificates.ts'
import { organizationsOf, startClaimsFixture } from '../support/claims-gateway.ts'
import { call, type JsonValue } from '../support/client.ts'
import { startFaultyGateway } from '../support/faulty-gateway.ts'
import {
  openRawClient,
  openRoute,
  type RawClient,
  startRawUpstream,
  startTestGateway,
  until,
} from '../support/gateway.ts'
import { startPdp } from '../support/pdp.ts'
import { type Account, populate } from '../support/population.ts'
import { startSecureUpstream } from '../support/secure-upstream.ts'
import { leadThrough, startTcpProxy } from '../support/tcp-proxy.ts'
import { patience, startTestWorld } from '../support/world.ts'

// A head may be written long after its permit: the body begins late, or the connection opens late. The rights of then
// count, and no connection waits for a body.

const world = await startTestWorld(t)
const { acme } = world.organizations
const { writer, insert, addAccount } = await populate(t, world)
const pdp = await startPdp(t)

/** Whether the last request of these bytes is there to its end. */
function isWhole(soFar: string): boolean {
  const last = soFar.slice(Math.max(soFar.lastIndexOf('GET /'), soFar.lastIndexOf('POST /')))
  return last.startsWith('GET') ? last.endsWith('\r\n\r\n') : /(?:\r\n\r\ndone|0\r\n\r\n)$/.test(last)
}

/** An upstream that answers each whole request, and knows the identities that came. */
async function startBackend(t: Test) {
  let identity: JsonValue
  const { url, received, sockets } = await startRawUpstream(t, (socket, soFar) => {
    if (!isWhole(soFar)) return
    identity = lastIdentity(soFar)
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
  })
  return { url, heads: (): string => received().join(''), sockets, identity: () => identity }
}

function lastIdentity(heads: string): JsonValue {
  const [, payload = ''] = (heads.match(/x-gateway-identity: \S+/g)?.at(-1) ?? '').split('.')
  return payload === '' ? undefined : JSON.parse(Buffer.from(payload, 'base64url').toString())
}

const [backend, other, probe] = [await startBackend(t), await startBackend(t), await startBackend(t)]

const member = { surface: 'platform', upstream: 'platform', require: { role: 'org-member' } }
const upload = { id: 'upload', match: { path: '/upload' }, ...member }
const routes = [
  upload,
  { id: 'owners', match: { path: '/owners' }, ...member, upstream: 'files', require: { role: 'org-owner' } },
  { id: 'impatient', match: { path: '/impatient' }, ...member, upstream: 'files', timeouts: { bodyIdleMs: 100 } },
  { id: 'waiting', match: { path: '/waiting' }, ...member, upstream: 'files' },
  { id: 'bound', match: { path: '/bound' }, ...member, upstream: 'data' },
  {
    ...{ id: 'cluster', match: { path: '/clusters/:id/*' }, surface: 'platform' },
    ...{ cluster: { param: 'id' }, require: { role: 'org-member' } },
  },
  { id: 'probe', match: { path: '/probe' }, ...member, upstream: 'graphql' },
  {
    ...{ id: 'asked', match: { path: '/asked/:id' }, ...member },
    decision: { pdp: 'pdp', action: 'send', resource: { type: 'thing', param: 'id' } },
  },
]

const gateway = await startTestGateway(t, {
  world,
  settings: {
    database: { url: world.databaseUrl, ...patience },
    decisionPoints: { pdp: { url: pdp.url, deadlineMs: 60_000 } },
  },
  upstreams: {
    ...{ platform: { url: backend.url }, files: { url: other.url }, graphql: { url: probe.url } },
    data: { url: backend.url, bind: true },
  },
  routes,
})

/** A request without a byte of its body, which the gateway waits for. */
async function beginUpload(
  t: Test,
  path: string,
  { headers }: Pick<Account, 'headers'>,
  framing = 'content-length: 4',
  origin = gateway.public,
) {
  const client = await openRawClient(t, origin)
  const lines = Object.entries({ host: 'h', ...headers, expect: '100-continue' }).map((line) => line.join(': '))
  client.send(`POST ${path} HTTP/1.1\r\n${[...lines, framing].join('\r\n')}\r\n\r\n`)
  await client.until(/100 Continue\r\n\r\n/)
  return client
}

/** The status line and the lines of the final answer. */
const answerOf = (client: RawClient): Promise<string> => client.until(/HTTP\/1\.1 [2-5][\s\S]*\r\n\r\n/)

const setRole = ({ id }: Account, role: string) =>
  writer.query('update role_assignments set role = $2 where user_id = $1', [id, role])

/** Waits until new requests of the account have it. */
async function learn(
  { headers }: Pick<Account, 'headers'>,
  isKnown: (identity: JsonValue) => boolean,
  origin = gateway.public,
): Promise<void> {
  await until(async () => {
    const { status } = await call(origin, { path: '/probe', headers })
    return status === 200 && isKnown(probe.identity())
  }, 'the change')
}

async function addOwner(name: string): Promise<Account> {
  const account = await addAccount(name)
  await setRole(account, 'org-owner')
  await learn(account, ({ organization }) => organization.role === 'org-owner')
  return account
}

async function lower(account: Account, origin?: string): Promise<void> {
  await setRole(account, 'org-member')
  await learn(account, ({ organization }) => organization.role === 'org-member', origin)
}

for (const [framing, body] of [
  ['content-length: 4', 'done'],
  ['transfer-encoding: chunked', '4\r\ndone\r\n0\r\n\r\n'],
  ['transfer-encoding: chunked', '0\r\n\r\n'],
] as const)
  for (const path of ['/upload', '/bound'])
    t.test(`${path} tells the role of now, where ${JSON.stringify(body)} comes late after ${framing}`, async (t) => {
      const owner = await addOwner(`late-${body.length}${path.replace('/', '-')}`)
      const client = await beginUpload(t, path, owner, framing)
      await lower(owner)
      client.send(body)
      t.match(await answerOf(client), /^HTTP\/1\.1 200/m)
      t.match(backend.identity(), { organization: { id: acme.id, role: 'org-member' }, roles: ['org-member'] })
      t.notMatch(backend.identity().abilities, ['organizations:manage'])
    })

t.test('every other claim is that of now, too', async (t) => {
  const account = await addAccount('renamed')
  const client = await beginUpload(t, '/upload', account)
  await writer.query("update users set email = 'new@demo.example' where id = $1", [account.id])
  await writer.query(`update auth_access_tokens set abilities = '["datasets:read"]' where id = $1`, [account.tokenId])
  await learn(account, ({ user, abilities }) => user.email === 'new@demo.example' && abilities.length === 1)
  client.send('done')
  t.match(await answerOf(client), /^HTTP\/1\.1 200/m)
  t.match(backend.identity(), { user: { email: 'new@demo.example' }, abilities: ['datasets:read'] })
})

t.test('the end of a right ends the wait at once, with its own status, and opens no connection', async (t) => {
  const ends: readonly (readonly [string, string, RegExp, (account: Account) => Promise<unknown>])[] = [
    ['lost-role', '/owners', /^HTTP\/1\.1 403/m, (account) => setRole(account, 'org-member')],
    [
      ...(['lost-membership', '/waiting', /^HTTP\/1\.1 403/m] as const),
      ({ id }) => writer.query('delete from role_assignments where user_id = $1', [id]),
    ],
    [
      ...(['revoked', '/waiting', /^HTTP\/1\.1 401/m] as const),
      ({ tokenId }) => writer.query('delete from auth_access_tokens where id = $1', [tokenId]),
    ],
    [
      ...(['expired', '/waiting', /^HTTP\/1\.1 401/m] as const),
      ({ tokenId }) =>
        writer.query("update auth_access_tokens set expires_at = now() + interval '1 second' where id = $1", [tokenId]),
    ],
  ]
  for (const [name, path, status, end] of ends) {
    const account = await addOwner(name)
    const client = await beginUpload(t, path, account)
    await end(account)
    t.match(await answerOf(client), status, name)
  }
  t.equal(other.sockets().length, 0)
})

t.test('decision points are asked again, and the claims of their yes count', async (t) => {
  const owner = await addOwner('asked')
  const asked = await beginUpload(t, '/asked/yes', owner)
  const refused = await beginUpload(t, '/asked/no', owner)
  pdp.decide(({ resource: { id } }) => id === 'yes')
  await lower(owner)
  t.match(await answerOf(refused), /^HTTP\/1\.1 403/m)
  asked.send('done')
  t.match(await answerOf(asked), /^HTTP\/1\.1 200/m)
  t.match(backend.identity(), { organization: { role: 'org-member' } })
  pdp.decide(() => true)
})

t.test('requests without a body hold no connection, whether their clients leave, go on or say nothing', async (t) => {
  const account = await addAccount('crowd')
  const clients = await Promise.all(Array.from({ length: 50 }, () => beginUpload(t, '/waiting', account)))
  const silent = await beginUpload(t, '/impatient', account)
  t.match(await answerOf(silent), /^HTTP\/1\.1 408/m)
  t.equal(other.sockets().length, 0)
  for (const { socket } of clients.slice(0, 25)) socket.destroy()
  // It is answered on the same connection that a wait was on.
  const [next] = clients.slice(25)
  next?.send('done')
  if (next) t.match(await answerOf(next), /^HTTP\/1\.1 200/m)
  next?.send(`GET /waiting HTTP/1.1\r\nhost: h\r\nauthorization: ${account.headers.authorization}\r\n\r\n`)
  await next?.until(/200 OK[\s\S]*200 OK/)
  t.equal(other.sockets().length, 1)
  t.equal(other.heads().match(/POST /g)?.length, 1)
})

t.test('a body that is malformed before its first byte is refused, and opens no connection', async (t) => {
  const account = await addAccount('malformed')
  const before = backend.sockets().length + other.sockets().length
  const client = await beginUpload(t, '/upload', account, 'transfer-encoding: chunked')
  client.send('no size\r\n')
  t.match(await answerOf(client), /^HTTP\/1\.1 400/m)
  t.equal(backend.sockets().length + other.sockets().length, before)
})

let tables = 0

/** Puts these routes in force, and waits until they are. */
async function reload(changed: readonly object[]): Promise<void> {
  tables += 1
  const path = `/table-${tables}`
  const isInForce = { id: 'in-force', match: { path }, surface: 'platform', access: 'public', upstream: 'graphql' }
  const file = join(dirname(gateway.keyFile), 'policies', 'routes.yaml')
  writeFileSync(`${file}.new`, JSON.stringify({ routes: [...changed, isInForce] }))
  renameSync(`${file}.new`, file)
  await until(async () => (await call(gateway.public, { path })).status === 200, 'the new table')
}

const reloads: readonly (readonly [name: string, changed: readonly object[], answer: RegExp])[] = [
  ['a route that is gone', [], /^HTTP\/1\.1 404/m],
  ['another method', [{ ...upload, match: { methods: ['GET'], path: '/upload' } }], /^HTTP\/1\.1 405/m],
  ['a higher role', [{ ...upload, require: { role: 'org-owner' } }], /^HTTP\/1\.1 403/m],
  ['another upstream', [{ ...upload, upstream: 'files' }], /^HTTP\/1\.1 503[\s\S]*\r\nretry-after: 1\r\n/m],
  ['another path', [{ ...upload, rewrite: '/moved' }], /^HTTP\/1\.1 503[\s\S]*\r\nretry-after: 1\r\n/m],
]
for (const [name, changed, answer] of reloads)
  for (const isSent of [false, true])
    t.test(
      `a reload to ${name} counts for what waits${isSent ? ', and for a body that comes at once' : ''}`,
      async (t) => {
        await reload(routes)
        const account = await addAccount(`reload-${tables}`)
        const client = await beginUpload(t, '/upload', account)
        const before = [backend, other].map(({ heads }) => heads())
        await reload(changed)
        if (isSent) client.send('done')
        t.match(await answerOf(client), answer)
        t.same(
          [backend, other].map(({ heads }) => heads()),
          before,
        )
      },
    )

t.test('a reload that leaves the way as it is lets the request through', async (t) => {
  await reload(routes)
  const account = await addAccount('public')
  const client = await beginUpload(t, '/upload', account)
  const { require: _, ...open } = upload
  await reload([{ ...open, access: 'public' }])
  client.send('done')
  t.match(await answerOf(client), /^HTTP\/1\.1 200/m)
  t.match(backend.heads(), /POST \/upload HTTP\/1\.1\r\n(?:(?!x-gateway-identity)[^\r]+\r\n)+\r\ndone$/)
  await reload(routes)
})

t.test('a cluster that moves meanwhile gets nothing at either address', async (t) => {
  const account = await addAccount('clusters')
  const cluster = await insert(
    `clusters (organization_id, name, slug, base_url, status, last_heartbeat_at)
     values ($1, 'moving', 'moving', $2, 'active', now())`,
    [acme.id, backend.url],
  )
  const path = `/clusters/${cluster}/x`
  for (const [address, isThere] of [
    [`${backend.url}/below`, () => backend.heads().includes('GET /below/x ')],
    [other.url, () => other.heads().includes('GET /x ')],
  ] as const) {
    const client = await beginUpload(t, path, account)
    await writer.query('update clusters set base_url = $2 where id = $1', [cluster, address])
    await until(async () => {
      await call(gateway.public, { path, headers: account.headers })
      return isThere()
    }, 'the new address')
    client.send('done')
    t.match(await answerOf(client), /^HTTP\/1\.1 503[\s\S]*\r\nretry-after: 1\r\n/m, address)
  }
  t.notMatch(backend.heads() + other.heads(), /POST \/(?:below\/)?x /)
})

t.test('a retry on a fresh connection tells the role of now', async (t) => {
  const owner = await addOwner('retry')
  let isKept = true
  const raw = await startRawUpstream(t, (socket, soFar, connection) => {
    if (connection > 0 || soFar.split('GET ').length === 2)
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
    else isKept = false
  })
  const one = await startTestGateway(t, {
    world,
    upstreams: { platform: { url: raw.url }, graphql: { url: probe.url } },
    routes: routes.filter(({ id }) => id === 'upload' || id === 'probe'),
  })
  const ask = () => call(one.public, { path: '/upload', headers: owner.headers })
  t.equal((await ask()).status, 200)
  const retried = ask()
  await until(() => !isKept, 'the second request')
  await lower(owner, one.public)
  raw.sockets()[0]?.resetAndDestroy()
  t.equal((await retried).status, 200)
  t.equal(raw.sockets().length, 2)
  t.match(lastIdentity(raw.received()[0] ?? ''), { organization: { role: 'org-owner' } })
  t.match(lastIdentity(raw.received()[1] ?? ''), { organization: { role: 'org-member' } })
})

testCertificates(t, 'a connection that opens late', async (t) => {
  const authority = createAuthority(t)
  const heads: JsonValue[] = []
  const secure = await startSecureUpstream(t, authority.issue(['DNS:localhost']), (request, response) => {
    heads.push(request.headers)
    request.resume().on('end', () => response.end('ok'))
  })
  const proxy = await startTcpProxy(t, { port: secure.port })
  const url = leadThrough(proxy, secure.url).replace('127.0.0.1', 'localhost')
  const slow = await startTestGateway(t, {
    world,
    settings: { timeouts: { connectMs: 20_000 } },
    upstreams: { platform: { url, tls: { ca: authority.cert } } },
    routes: [upload, { ...upload, id: 'owners', match: { path: '/owners' }, require: { role: 'org-owner' } }],
  })
  for (const method of ['GET', 'POST']) {
    const owner = await addOwner(`connect-${method}`)
    proxy.cut()
    proxy.freeze()
    const ask = (path: string) =>
      call(slow.public, { method, path, headers: owner.headers, ...(method === 'POST' && { body: 'done' }) })
    const [kept, lost] = [ask('/upload'), ask('/owners')]
    await until(() => proxy.connections() === 2, 'the connections')
    await lower(owner)
    t.equal((await lost).status, 403)
    proxy.thaw()
    t.equal((await kept).status, 200)
    t.equal(heads.length, 1)
    t.match(lastIdentity(`x-gateway-identity: ${heads.pop()['x-gateway-identity']}`), {
      organization: { role: 'org-member' },
    })
  }
})

t.test('with claims alone the organization of now is told', async (t) => {
  const { gateway: claimed, issuer, as, identityOf, writeOrganizations } = await startClaimsFixture(t)
  const headers = await as({ groups: ['/acme/org-member'] })
  const client = await beginUpload(t, '/public/x', { headers }, undefined, claimed.public)
  writeOrganizations(organizationsOf(issuer.issuer).map((one) => (one.id === 7 ? { ...one, slug: 'renamed' } : one)))
  await until(async () => (await identityOf(headers)).organization.slug === 'renamed', 'the new name')
  client.send('done')
  const [, told = ''] = (await client.until(/200 OK[\s\S]*\}$/)).split('200 OK')
  t.match(lastIdentity(told.replace('"x-gateway-identity":"', 'x-gateway-identity: ').replaceAll('"', ' ')), {
    organization: { id: 7, slug: 'renamed' },
  })
})

t.test('a client that leaves during a signature, and a connection that breaks then, send nothing', async (t) => {
  const signing: (() => void)[] = []
  const raw = await startRawUpstream(t, (socket, soFar) => {
    if (isWhole(soFar)) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
  })
  const { public: origin, countInFlight } = await startFaultyGateway(t, {
    routes: [openRoute],
    upstreams: { platform: { url: raw.url } },
    spoil: () => ({
      pin: () =>
        new Promise((resolve) => signing.push(() => resolve(new PreparedHeaders(['x-late', String(signing.length)])))),
    }),
  })
  const leaving = await openRawClient(t, origin)
  leaving.send('POST /x HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\n\r\ndone')
  await until(() => signing.length === 1, 'the signature')
  leaving.socket.destroy()
  await until(() => countInFlight() === 0, 'the end')
  signing[0]?.()
  await until(() => raw.sockets()[0]?.readableEnded || raw.sockets()[0]?.destroyed, 'the end of the connection')
  t.same(raw.received(), [''])
  // Nothing has left, so even an upload may take another connection.
  const staying = call(origin, { method: 'POST', path: '/x', body: 'done' })
  await until(() => signing.length === 2, 'another signature')
  await until(() => raw.sockets().length === 2, 'another connection')
  raw.sockets()[1]?.resetAndDestroy()
  await until(() => signing.length === 3, 'a third one')
  signing[2]?.()
  t.equal((await staying).status, 200)
  t.same(raw.received().slice(0, 2), ['', ''])
  t.match(raw.received()[2], /x-late: 3\r\n[\s\S]*done$/)
})

t.test('a signature that fails is the refusal, and its connection serves no other request', async (t) => {
  const raw = await startRawUpstream(t, (socket, soFar) => {
    if (isWhole(soFar)) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
  })
  const failures: (() => Promise<never> | never)[] = [
    () => Promise.reject(new GatewayError('cluster_stale')),
    () => {
      throw new GatewayError('cluster_stale')
    },
  ]
  const engine = createEngine()
  t.teardown(() => engine.close())
  const { public: origin } = await startFaultyGateway(t, {
    routes: [openRoute],
    upstreams: { platform: { url: raw.url } },
    spoil: () => ({ forward: createForward(engine.send), pin: () => failures.shift()?.() ?? new PreparedHeaders([]) }),
  })
  for (const code of ['cluster_offline', 'cluster_offline', undefined]) {
    const { status, text } = await call(origin, { path: '/x' })
    t.equal(status, code ? 503 : 200)
    if (code) t.match(JSON.parse(text), { error: { code } })
  }
  t.same(raw.received().slice(0, 2), ['', ''])
  t.equal(raw.sockets().length, 3)
})
