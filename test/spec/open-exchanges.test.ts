import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { startEndlessUpstream } from '../support/endless-upstream.ts'
import { parseEvents } from '../support/event-streams.ts'
import { startFairClock } from '../support/fair-clock.ts'
import { openRawClient, startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { startIssuer } from '../support/issuer.ts'
import { type Account, populate } from '../support/population.ts'
import { type ReadAnswer, readAnswer, readPermitted } from '../support/streams.ts'
import { handshake, switching } from '../support/websocket.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { acme } = world.organizations
const { writer, insert, assign, addAccount } = await populate(t, world)
const upstream = await startEndlessUpstream(t)
const upstreams = Object.fromEntries(['platform', 'agents', 'files', 'data'].map((name) => [name, upstream]))
const gateway = await startTestGateway(t, { world, upstreams: toUrls(upstreams) })

function toUrls(named: Readonly<Record<string, { url: string }>>) {
  return Object.fromEntries(Object.entries(named).map(([name, { url }]) => [name, { url }]))
}

/** The bound is 1 s; the rest is for a busy machine. */
const endsWithinMs = 2_000

const responses = `/agent/${world.agents.acme}/responses`
const chat = `/agent/${world.agents.acme}/chat/completions`

let opened = 0

/** Opens a stream and waits until events pass. */
async function openStream(path: string, headers: Record<string, string>, origin = gateway.public): Promise<ReadAnswer> {
  opened += 1
  const id = { 'x-request-id': `open-${opened}` }
  const answer = await readPermitted(() => readAnswer(origin + path, { ...headers, ...id }))
  await until(() => answer.text().length > 200, 'events')
  return answer
}

const sql = (text: string, ...values: readonly unknown[]) => writer.query(text, [...values])

const revoke = ({ tokenId }: Account) => sql('delete from auth_access_tokens where id = $1', tokenId)

/** Makes the change and expects one `response.failed`, after which nothing follows. */
async function expectEnd(t: Test, answer: ReadAnswer, change: () => Promise<unknown>, code = 'access_revoked') {
  await change()
  const passedMs = startFairClock(t)
  const events = parseEvents(await answer.whole())
  t.ok(passedMs() < endsWithinMs, `${passedMs()} ms`)
  const failures = events.filter(({ data }) => data.includes('response.failed'))
  t.equal(failures.length, 1, 'one failure')
  t.equal(failures[0], events.at(-1), 'nothing follows')
  t.equal(JSON.parse(failures[0]?.data ?? '{}').response.metadata.x_service_error_code, code)
}

async function addHuman(name: string, expiresIn?: number) {
  const jwt = await world.mint({ sub: name, email: `${name}@demo.example`, ...(expiresIn && { expiresIn }) })
  const headers = oauth({ jwt })
  const me = await world.call({ path: '/users/me', headers })
  const id = Number(me.json().data.id)
  await assign(id, acme.id, 'org-member')
  return { id, headers }
}

t.test('a revoked token ends its event stream and the upstream, and no other', async (t) => {
  const [gone, kept] = [await addAccount('gone'), await addAccount('kept')]
  const other = await openStream(responses, kept.headers)
  const answer = await openStream(responses, gone.headers)
  const count = upstream.requests().length
  await expectEnd(t, answer, () => revoke(gone))
  await until(() => upstream.requests()[count - 1]?.isClosed, 'the end of the upstream', endsWithinMs)
  const length = other.text().length
  await until(() => other.text().length > length + 500, 'further events of the other')
  t.notOk(other.hasEnded())
  other.leave()
})

t.test('a chat stream ends with an error in its data', async (t) => {
  const account = await addAccount('chatting')
  const answer = await openStream(chat, account.headers)
  await revoke(account)
  const last = JSON.parse(parseEvents(await answer.whole()).at(-1)?.data ?? '{}')
  t.match(last, { type: 'response.failed', error: { x_service_error_code: 'access_revoked' } })
})

const byUser: Readonly<Record<string, (id: number) => Promise<unknown>>> = {
  'a lost membership': (id) => sql('delete from role_assignments where user_id = $1', id),
  'a lost role': (id) => sql("update role_assignments set role = 'gone' where user_id = $1", id),
  'a disabled user': (id) => sql('update users set disabled_at = now() where id = $1', id),
}
for (const [name, change] of Object.entries(byUser))
  t.test(`${name} ends the streams of tokens and of JWTs`, async (t) => {
    const account = await addAccount(name.replaceAll(' ', '-'))
    const human = await addHuman(name.replaceAll(' ', '-'))
    for (const { id, headers } of [account, human])
      await expectEnd(t, await openStream(responses, headers), () => change(id))
  })

t.test('an archived organization and an agent that moves end streams', async (t) => {
  const organization = await insert("organizations (name, slug, account_type) values ('Archived', 'archived', 'team')")
  const agent = await insert('agents (organization_id, name) values ($1, $2)', [organization, 'one'])
  const moving = await insert('agents (organization_id, name) values ($1, $2)', [organization, 'two'])
  const { id, headers } = await addAccount('of-archived')
  await assign(id, organization, 'org-member')
  const scoped = { ...headers, 'x-organization-id': String(organization) }
  const ofMoving = await openStream(`/agent/${moving}/responses`, scoped)
  const ofArchived = await openStream(`/agent/${agent}/responses`, scoped)
  await expectEnd(t, ofMoving, () => sql('update agents set organization_id = $1 where id = $2', acme.id, moving))
  await expectEnd(t, ofArchived, () => sql('update organizations set archived_at = now() where id = $1', organization))
})

t.test('an organization that is switched moves nothing', async (t) => {
  const { id, headers } = await addAccount('switching')
  await assign(id, world.organizations.globex.id, 'org-member')
  const answer = await openStream(responses, headers)
  await sql('update users set current_organization_id = $1 where id = $2', world.organizations.globex.id, id)
  const length = answer.text().length
  await until(() => answer.text().length > length + 4_000, 'further events')
  t.notOk(answer.hasEnded())
  // The organization of the opening counts.
  await expectEnd(t, answer, () =>
    sql('delete from role_assignments where user_id = $1 and organization_id = $2', id, acme.id),
  )
})

t.test('a token ends what it opened at its expiry', async (t) => {
  const account = await addAccount('expiring')
  await sql("update auth_access_tokens set expires_at = now() + interval '4 seconds' where id = $1", account.tokenId)
  const expiresAtMs = performance.now() + 4_000
  const answer = await openStream(responses, account.headers)
  await expectEnd(t, answer, () => sleep(expiresAtMs - performance.now()), 'credential_expired')
})

t.test('a suspended cluster breaks its downloads off', async (t) => {
  const id = await insert(
    `clusters (organization_id, name, slug, base_url, status, last_heartbeat_at)
     values ($1, 'Open', 'open', $2, 'active', now())`,
    [acme.id, upstream.url],
  )
  const { headers } = await addAccount('downloading')
  const response = await fetch(`${gateway.public}/clusters/${id}/proxy/file`, { headers })
  t.equal(response.status, 200)
  const broken = t.rejects(response.arrayBuffer())
  await sql("update clusters set status = 'suspended' where id = $1", id)
  await broken
})

t.test('a revoked token breaks downloads off', async (t) => {
  const account = await addAccount('reader')
  const response = await fetch(`${gateway.public}/v1/files/1/content`, { headers: account.headers })
  t.equal(response.status, 200)
  const broken = t.rejects(response.arrayBuffer())
  await revoke(account)
  await broken
})

t.test('an upload whose token is revoked gets 401, and its upstream no last chunk', async (t) => {
  const account = await addAccount('uploading')
  const count = upstream.requests().length
  const { readable, writable } = new TransformStream<Uint8Array>()
  const body = writable.getWriter()
  const sending = fetch(`${gateway.public}/v1/files`, {
    method: 'POST',
    headers: account.headers,
    body: readable,
    duplex: 'half',
  } as RequestInit)
  await body.write(Buffer.alloc(1_000))
  await until(() => (upstream.requests()[count]?.receivedBytes ?? 0) > 0, 'the first bytes')
  await revoke(account)
  t.equal((await sending).status, 401)
  await body.close().catch(() => undefined)
  const request = upstream.requests()[count]
  await until(() => request?.isClosed, 'the end of the upstream', endsWithinMs)
  t.notOk(request?.isWhole)
})

t.test('before its response has begun, an exchange that loses its role is broken off, and never 403', async (t) => {
  const { id, headers } = await addAccount('waiting')
  const count = upstream.requests().length
  const sending = fetch(`${gateway.public}/v1/files/silent`, { headers })
  const broken = t.rejects(sending)
  await until(() => upstream.requests().length > count, 'the request')
  await sql('delete from role_assignments where user_id = $1', id)
  await broken
  await until(() => upstream.requests()[count]?.isClosed, 'the end of the upstream', endsWithinMs)
})

async function openSocket(t: Test, headers: Record<string, string>): Promise<WebSocket> {
  const socket = new WebSocket(`${gateway.public.replace('http', 'ws')}/socket`, { headers })
  t.teardown(() => socket.terminate())
  await once(socket, 'message')
  return socket
}

t.test('a WebSocket is closed with 1008, and its upstream too', async (t) => {
  const account = await addAccount('socket')
  const socket = await openSocket(t, account.headers)
  const count = upstream.requests().length
  const closed = once(socket, 'close')
  await revoke(account)
  const [code] = await closed
  t.equal(code, 1008)
  await until(() => upstream.requests()[count - 1]?.isClosed, 'the end of the upstream', endsWithinMs)
})

t.test('a WebSocket ends with its JWT, and a stream does so where `endAtExpiry` says it', async (t) => {
  const settings = { streams: { endAtExpiry: 'all' } }
  const { public: strict } = await startTestGateway(t, { world, upstreams: toUrls(upstreams), settings })
  const { headers } = await addHuman('short', 5)
  const ending = await openStream(responses, headers, strict)
  const answer = await openStream(responses, headers)
  const socket = await openSocket(t, headers)
  const [code] = await once(socket, 'close')
  t.equal(code, 1008)
  const length = answer.text().length
  await until(() => answer.text().length > length + 2_000, 'further events')
  t.notOk(answer.hasEnded())
  answer.leave()
  t.match(parseEvents(await ending.whole()).at(-1)?.data, /"x_service_error_code":"credential_expired"/)
})

t.test('a fast stream ends in its failure, and no byte follows', async (t) => {
  const fast = await startEndlessUpstream(t, { everyMs: 1, burst: 20 })
  const { public: origin } = await startTestGateway(t, { world, upstreams: { agents: { url: fast.url } } })
  for (const path of [responses, chat]) {
    const account = await addAccount(`fast-${path.length}`)
    const answer = await openStream(path, account.headers, origin)
    await until(() => answer.body().length > 100_000, 'many events')
    await revoke(account)
    const events = parseEvents(await answer.whole())
    const ends = events.flatMap(({ data }, index) => (data.includes('access_revoked') ? [index] : []))
    t.same(ends, [events.length - 1], 'one failure, at the end')
    t.match(answer.text().slice(-2), '\n\n', 'a whole event')
    if (path === chat) continue
    const numbers = events.map(({ data }): number => JSON.parse(data).sequence_number)
    t.same(
      numbers,
      Array.from(numbers, (_, index) => index),
      'no event is missing before it',
    )
  }
})

t.test('a withdrawn key of an issuer ends what its JWTs opened, and nothing of another key', async (t) => {
  const signers = await Promise.all(
    ['withdrawn', 'kept'].map(async (kid) => {
      const { publicKey, privateKey } = await generateKeyPair('ES256')
      const jwk: JWK = { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' }
      return { kid, jwk, privateKey }
    }),
  )
  let published = signers.map(({ jwk }) => jwk)
  const { issuer } = await startIssuer(t, () => published)
  const issuers = [{ issuer, jwksUri: `${issuer}/jwks`, audience: 'sallyport-demo' }]
  const settings = { issuers, jwks: { refreshMs: 500, maxStaleMs: 60_000 } }
  const { public: origin } = await startTestGateway(t, { world, upstreams: toUrls(upstreams), settings })
  const [gone, kept] = await Promise.all(
    signers.map(async ({ kid, privateKey }) => {
      const jwt = new SignJWT({ email: `${kid}@demo.example` }).setProtectedHeader({ alg: 'ES256', kid })
      jwt.setSubject(kid).setIssuer(issuer).setAudience('sallyport-demo').setExpirationTime('1h')
      const headers = oauth({ jwt: await jwt.sign(privateKey) })
      const me = await fetch(`${origin}/users/me`, { headers })
      const { data } = (await me.json()) as { data: { id: number } }
      await assign(data.id, acme.id, 'org-member')
      await until(async () => (await fetch(`${origin}/datasets/1`, { headers })).status !== 403, 'the membership')
      return openStream(responses, headers, origin)
    }),
  )
  if (!gone || !kept) throw new Error('two were opened')
  const length = kept.text().length
  await expectEnd(t, gone, async () => {
    published = signers.slice(1).map(({ jwk }) => jwk)
  })
  await until(() => kept.text().length > length + 1_000, 'further events')
  t.notOk(kept.hasEnded())
  kept.leave()
})

t.test('half a frame of the client hinders no close frame, and half a frame to it is reset', async (t) => {
  const closeFrame = Buffer.from([0x88, 2, 1_008 >> 8, 1_008 & 0xff])
  const frame = Buffer.from([0x81, 2, 0x68, 0x69])
  for (const isHalf of [false, true]) {
    const raw = await startRawUpstream(t, (socket, soFar) => {
      if (!soFar.endsWith('\r\n\r\n')) return
      socket.write(switching)
      socket.write(isHalf ? frame.subarray(0, 3) : frame)
    })
    const { public: origin } = await startTestGateway(t, { world, upstreams: { platform: { url: raw.url } } })
    const account = await addAccount(`half-${isHalf}`)
    const client = await openRawClient(t, origin)
    client.send(handshake('/socket', `Authorization: ${account.headers.authorization}\r\n`))
    await client.until(/\r\n\r\n..h/)
    // A masked text of five bytes, of which one is sent.
    client.send(Buffer.from([0x81, 0x85, 1, 2, 3, 4, 0x69]))
    await until(() => raw.received()[0]?.endsWith('i'), 'the half frame at the upstream')
    await revoke(account)
    if (!isHalf) {
      await client.until(new RegExp(closeFrame.toString('latin1')))
      client.send('after the close')
    }
    const received = Buffer.from(await client.closed(), 'latin1')
    const tunneled = received.subarray(received.indexOf('\r\n\r\n') + 4)
    t.same(tunneled, isHalf ? frame.subarray(0, 3) : Buffer.concat([frame, closeFrame]))
    await sleep(100)
    t.match(raw.received()[0], /i$/, 'no byte of the client follows')
  }
})
