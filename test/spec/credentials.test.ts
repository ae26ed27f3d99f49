import { createHash, createHmac, createPublicKey, randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import pg from 'pg'
import t, { type Test } from 'tap'
import { collectTokenUses } from '../../gateway/directory/postgres/token-uses.ts'
import { type Answer, call, type JsonValue } from '../support/client.ts'
import { freezePostgres } from '../support/freeze-postgres.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t, { hasOwnServer: true, hasOwnProcess: true })
const { owner, admin, member } = world.users
const { robot, robotAdmin } = world.serviceAccounts

const database = new pg.Pool({ connectionString: world.databaseUrl, max: 2 })
database.on('error', () => undefined)
t.teardown(() => database.end())

const path = '/public/credentials'

type Headers = Readonly<Record<string, string | string[]>>

const ask = (headers: Headers, target = path): Promise<Answer> => world.call({ path: target, headers })

async function whoIs(headers: Headers): Promise<JsonValue> {
  const answer = await ask(headers, '/users/me')
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`)
  return answer.json().data
}

const refusal = {
  success: false,
  message: 'Authentication is required: the credential is missing, invalid or expired.',
  error: { status: 401, code: 'unauthenticated' },
}

/** 401 in the one shape, and no request at a backend. */
async function isRefused(t: Test, headers: Headers, name: string): Promise<void> {
  await world.clearRecorder()
  const answer = await ask(headers)
  t.equal(answer.status, 401, name)
  // RFC 6750 3.1: a request without a credential learns no error. Another scheme is not a credential, a repeated line is.
  const { authorization = '' } = headers
  const isBearer = Array.isArray(authorization) || /^bearer(?!\w)/i.test(String(authorization))
  const isCarried = 'x-oauth-access-token' in headers || isBearer
  const challenge = isCarried ? 'Bearer error="invalid_token"' : 'Bearer'
  t.equal(answer.headers['www-authenticate'], challenge, `${name}: the challenge`)
  const { error, ...body } = answer.json()
  const { requestId, ...rest } = error
  t.same({ ...body, error: rest }, refusal, `${name}: the body`)
  t.equal(requestId, answer.headers['x-request-id'], `${name}: the request id`)
  t.same(await world.recorded(), [], `${name}: no backend heard of it`)
}

async function isAccepted(t: Test, headers: Headers, name: string): Promise<void> {
  await world.clearRecorder()
  const answer = await ask(headers)
  t.equal(answer.status, 200, name)
  const recorded = await world.recorded()
  t.equal(recorded.length, 1, `${name}: one request reached the backend`)
  const names = recorded.flatMap(({ headers }) =>
    headers.map(([header]) => header.toLowerCase().replace(/[^a-z0-9]/g, '-')),
  )
  t.notOk(names.includes('authorization') || names.includes('x-oauth-access-token'), `${name}: without the credential`)
}

async function isAmbiguous(t: Test, headers: Headers, name: string): Promise<void> {
  await world.clearRecorder()
  const answer = await ask(headers)
  t.equal(answer.status, 400, name)
  t.match(answer.json(), { success: false, error: { status: 400, code: 'ambiguous_credentials' } }, name)
  t.same(await world.recorded(), [], `${name}: no backend heard of it`)
}

/** For tests that take seconds by design, on a busy machine. */
const patienceMs = 20_000

const base62 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

function drawSecret(): string {
  const random = Array.from({ length: 40 }, () => base62.charAt(randomInt(base62.length))).join('')
  return `${random}${crc32(random)}`
}

const encode = (text: string): string => Buffer.from(text).toString('base64url')
const composeToken = (id: number, secret: string): string => `oat_${encode(String(id))}.${encode(secret)}`
const hashOf = (secret: string): string => createHash('sha256').update(secret).digest('hex')

function takeApart(token: string): Readonly<{ id: number; secret: string }> {
  const [id = '', secret = ''] = token
    .slice(4)
    .split('.')
    .map((part) => Buffer.from(part, 'base64url').toString())
  return { id: Number(id), secret }
}

/** Stores a token of a user and returns its raw value; `expiry` is SQL. */
async function storeToken(userId: number, expiry = 'null'): Promise<Readonly<{ id: number; token: string }>> {
  const secret = drawSecret()
  const { rows } = await database.query<{ id: number }>(
    `insert into auth_access_tokens (tokenable_id, type, name, hash, abilities, created_at, updated_at, expires_at)
     values ($1, 'auth_token', 'test', $2, '["*"]', now(), now(), ${expiry}) returning id`,
    [userId, hashOf(secret)],
  )
  const id = rows[0]?.id ?? 0
  return { id, token: composeToken(id, secret) }
}

async function count(text: string, values: readonly unknown[]): Promise<number> {
  const { rows } = await database.query<{ count: number }>(`select count(*)::int as count from ${text}`, [...values])
  return rows[0]?.count ?? 0
}

const changeHeader = (jwt: string, changes: object): string => {
  const [header = '', payload, signature] = jwt.split('.')
  const changed = { ...JSON.parse(Buffer.from(header, 'base64url').toString()), ...changes }
  return `${encode(JSON.stringify(changed))}.${payload}.${signature}`
}

t.test('a JWT in x-oauth-access-token is a credential', async (t) => {
  await isAccepted(t, oauth(member), 'JWT')
  t.match(await whoIs(oauth(member)), {
    id: member.id,
    userType: 'human',
    currentAccessToken: { type: 'oauth', abilities: ['*'] },
  })
})

t.test('an API token in Authorization: Bearer is a credential', async (t) => {
  await isAccepted(t, bearer(robot.apiKey), 'API token')
  t.match(await whoIs(bearer(robot.apiKey)), {
    id: robot.id,
    userType: 'client-managed',
    currentAccessToken: { type: 'bearer', name: 'demo key' },
  })
})

t.test('the scheme is case-insensitive, and so are the names of the headers', async (t) => {
  for (const scheme of ['bearer', 'BEARER', 'bEaReR', 'Bearer   '])
    await isAccepted(t, { authorization: `${scheme} ${robot.apiKey}` }, scheme)
  await isAccepted(t, { AUTHORIZATION: `Bearer ${robot.apiKey}` }, 'AUTHORIZATION')
  await isAccepted(t, { 'X-OAuth-Access-Token': member.jwt }, 'X-OAuth-Access-Token')
})

t.test('another scheme is ignored beside a JWT', async (t) => {
  for (const authorization of ['Basic dXNlcjpwYXNz', 'Digest a="b"', 'Negotiate abc', 'Bearerish x', 'Bearer-x y', ''])
    await isAccepted(t, { ...oauth(member), authorization }, authorization)
})

t.test('another scheme alone is not a credential', async (t) => {
  for (const authorization of [
    'Basic dXNlcjpwYXNz',
    `Basic ${robot.apiKey}`,
    `Token ${robot.apiKey}`,
    robot.apiKey,
    `Bearer${robot.apiKey}`,
    '',
  ])
    await isRefused(t, { authorization }, authorization.slice(0, 12))
})

t.test('no credential is 401', async (t) => {
  await isRefused(t, {}, 'none')
})

t.test('an empty credential is 401', async (t) => {
  for (const authorization of ['Bearer', 'Bearer ', 'bearer'])
    await isRefused(t, { authorization }, JSON.stringify(authorization))
  await isRefused(t, { 'x-oauth-access-token': '' }, 'an empty JWT')
})

t.test('a JWT beside any Bearer is 400, good or bad', async (t) => {
  for (const jwt of [member.jwt, 'garbage', ''])
    for (const authorization of [`Bearer ${robot.apiKey}`, 'bearer x', 'BEARER', 'Bearer\tx', 'Bearer,x'])
      await isAmbiguous(
        t,
        { 'x-oauth-access-token': jwt, authorization },
        `${JSON.stringify(jwt.slice(0, 8))} with ${authorization.slice(0, 9)}`,
      )
})

t.test('two Authorization lines are 401 whatever they hold', async (t) => {
  const good = `Bearer ${robot.apiKey}`
  const basic = 'Basic dXNlcjpwYXNz'
  for (const authorization of [
    [good, good],
    [basic, good],
    [good, basic],
    [basic, basic],
    ['', good],
    [good, ''],
    [good, good, good],
  ]) {
    const name = authorization.map((value) => value.slice(0, 6)).join(' and ')
    await isRefused(t, { authorization }, name)
    await isRefused(t, { ...oauth(member), authorization }, `${name} beside a JWT`)
  }
})

t.test('two x-oauth-access-token lines are 401 whatever they hold', async (t) => {
  for (const jwts of [
    [member.jwt, member.jwt],
    [member.jwt, owner.jwt],
    ['', member.jwt],
    [member.jwt, ''],
  ]) {
    await isRefused(t, { 'x-oauth-access-token': jwts }, jwts.map((jwt) => jwt.length).join(' and '))
    await isRefused(t, { 'x-oauth-access-token': jwts, ...bearer(robot.apiKey) }, 'beside an API token')
  }
})

t.test('two lines are two lines in whatever case their names are written', async (t) => {
  const { host } = new URL(world.public)
  for (const lines of [
    [`Authorization: Bearer ${robot.apiKey}`, `AUTHORIZATION: Bearer ${robot.apiKey}`],
    [`x-oauth-access-token: ${member.jwt}`, `X-OAuth-Access-Token: ${member.jwt}`],
  ]) {
    await world.clearRecorder()
    const answer = await world.raw(
      `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${lines.join('\r\n')}\r\n\r\n`,
    )
    t.match(answer, /^HTTP\/1\.1 401 /)
    t.match(answer, /\r\nwww-authenticate: Bearer error="invalid_token"\r\n/i)
    t.same(await world.recorded(), [])
  }
})

t.test('two credentials in one line are refused', async (t) => {
  await isRefused(t, bearer(`${robot.apiKey}, ${robot.apiKey}`), 'two tokens')
  await isRefused(t, bearer(`${robot.apiKey}, Bearer ${robot.apiKey}`), 'two values')
  await isRefused(t, { authorization: `Basic abc, Bearer ${robot.apiKey}` }, 'two schemes')
  await isRefused(t, { 'x-oauth-access-token': `${member.jwt}, ${member.jwt}` }, 'two JWTs')
  await isRefused(t, { 'x-oauth-access-token': `Bearer ${member.jwt}` }, 'a scheme before a JWT')
})

t.test('a header with a similar name is not a credential, and is not forwarded', async (t) => {
  for (const name of [
    'x_oauth_access_token',
    'x.oauth.access.token',
    'X-OAuth_Access-Token',
    'x-oauth-token',
    'access-token',
  ])
    await isRefused(t, { [name]: member.jwt }, name)
  await isAccepted(t, { ...bearer(robot.apiKey), x_oauth_access_token: member.jwt }, 'beside an API token')
})

t.test('a credential in the query, a cookie or a body does not count', async (t) => {
  await world.clearRecorder()
  const answer = await world.call({
    method: 'POST',
    path: `${path}?access_token=${robot.apiKey}`,
    headers: { cookie: `access_token=${robot.apiKey}`, 'content-type': 'application/x-www-form-urlencoded' },
    body: `access_token=${robot.apiKey}`,
  })
  t.equal(answer.status, 401)
  t.same(await world.recorded(), [])
})

t.test('an oat_ token in x-oauth-access-token is 401', async (t) => {
  await isRefused(t, { 'x-oauth-access-token': robot.apiKey }, 'alone')
})

t.test('a JWT as Bearer is 401', async (t) => {
  await isRefused(t, bearer(member.jwt), 'JWT')
})

t.test('every 401 names the scheme, on every surface', async (t) => {
  await world.clearRecorder()
  for (const [method, target] of [
    ['GET', '/users/me'],
    ['GET', '/users/me/abilities'],
    ['POST', '/organizations/1/switch'],
    ['GET', '/datasets'],
    ['HEAD', '/datasets'],
    ['DELETE', '/admin/x'],
    ['GET', '/data/x'],
    ['GET', '/clusters/1/proxy/x'],
    ['POST', '/agent/1/responses'],
    ['POST', '/agent/3/responses'],
    ['POST', '/agent/1/chat/completions'],
    ['GET', '/v1/files'],
    ['POST', '/graphql'],
  ] as const) {
    for (const headers of [{}, bearer(robot.revoked), { 'x-oauth-access-token': 'x' }]) {
      const answer = await world.call({ method, path: target, headers })
      t.equal(answer.status, 401, `${method} ${target}`)
      const challenge = Object.keys(headers).length > 0 ? 'Bearer error="invalid_token"' : 'Bearer'
      t.equal(answer.headers['www-authenticate'], challenge, `${method} ${target}`)
    }
  }
  const outside = await ask({ ...oauth(member), 'x-organization-id': '2' })
  t.equal(outside.status, 401)
  t.equal(outside.headers['www-authenticate'], 'Bearer error="invalid_token"', 'for an organization of others, too')
  t.same(await world.recorded(), [])
})

t.test('on a public route no credential is read', async (t) => {
  for (const headers of [
    {},
    bearer('x'),
    { authorization: ['a', 'b'] },
    { ...oauth(member), ...bearer('x') },
  ] as Headers[])
    t.equal((await ask(headers, '/status')).status, 200)
})

t.test('an expired, a revoked and an unknown API token are 401', async (t) => {
  await isRefused(t, bearer(robot.expired), 'expired')
  await isRefused(t, bearer(robot.revoked), 'revoked')
  await isRefused(t, bearer(composeToken(2_147_483_647, drawSecret())), 'unknown')
})

t.test('a stored id with another secret is 401', async (t) => {
  const { id } = takeApart(robot.apiKey)
  await isRefused(t, bearer(composeToken(id, drawSecret())), 'a secret of no token')
  await isRefused(
    t,
    bearer(composeToken(id, takeApart(robot.apiSecret).secret)),
    'a secret of another token of the same account',
  )
  await isRefused(t, bearer(composeToken(id, takeApart(robotAdmin.apiKey).secret)), 'a secret of another account')
})

t.test('the stored hash is not a credential', async (t) => {
  const { id, secret } = takeApart(robot.apiKey)
  await isRefused(t, bearer(hashOf(secret)), 'alone')
  await isRefused(t, bearer(`oat_${encode(String(id))}.${encode(hashOf(secret))}`), 'as the secret')
})

/** Good tokens with one part of their form broken. */
const malformedTokens = (() => {
  const [head = '', tail = ''] = robot.apiKey.split('.')
  const { id, secret } = takeApart(robot.apiKey)
  return {
    'no prefix': robot.apiKey.slice(4),
    'another prefix': robot.apiKey.replace('oat_', 'pat_'),
    'no secret': `${head}.`,
    'no id': `oat_.${tail}`,
    'no dot': head + tail,
    padding: `${robot.apiKey}=`,
    'stray bits': `oat_MR.${tail}`,
    'a wrong checksum': composeToken(id, secret.slice(0, -1) + ((Number(secret.slice(-1)) + 1) % 10)),
    'no checksum': composeToken(id, secret.slice(0, 40)),
    'a changed letter': composeToken(id, (secret.startsWith('a') ? 'b' : 'a') + secret.slice(1)),
    'an id of zero': composeToken(0, secret),
    'an id past int4': composeToken(2_147_483_648, secret),
    'a negative id': composeToken(-1, secret),
    'an id with a zero before it': `oat_${encode(`0${id}`)}.${tail}`,
    'an id with a quote': `oat_${encode(`${id}'--`)}.${tail}`,
    'a long secret': `${robot.apiKey}${'A'.repeat(4_000)}`,
    'a letter that is not ASCII': `${robot.apiKey}\u00e9`,
  }
})()

t.test('a malformed API token is 401', async (t) => {
  for (const [name, token] of Object.entries(malformedTokens)) await isRefused(t, bearer(token), name)
})

t.test('an API token without an expiry never expires, one with an expiry lives until then', async (t) => {
  const { rows } = await database.query('select expires_at from auth_access_tokens where id = $1', [
    takeApart(robot.apiKey).id,
  ])
  t.same(rows, [{ expires_at: null }])
  const lasting = await storeToken(robot.id, "now() + interval '1 hour'")
  await isAccepted(t, bearer(lasting.token), 'before it')
  await database.query("update auth_access_tokens set expires_at = now() - interval '1 ms' where id = $1", [lasting.id])
  await until(async () => (await ask(bearer(lasting.token))).status === 401, 'the token expires', patienceMs)
  await isRefused(t, bearer(lasting.token), 'after it')
})

t.test('an API token is refused once it is revoked', async (t) => {
  const { id, token } = await storeToken(robot.id)
  await isAccepted(t, bearer(token), 'before')
  await database.query('delete from auth_access_tokens where id = $1', [id])
  await until(async () => (await ask(bearer(token))).status === 401, 'the token dies', patienceMs)
  await isRefused(t, bearer(token), 'after')
})

t.test('an API token that a human owns is 401', async (t) => {
  await isAccepted(t, bearer((await storeToken(robot.id)).token), 'a service account’s')
  for (const { id } of [owner, member, world.users.platformAdmin])
    await isRefused(t, bearer((await storeToken(id)).token), `the token of user ${id}`)
})

t.test('a JWT with sound claims is accepted, whatever else it says', async (t) => {
  const now = Math.floor(Date.now() / 1000)
  const { audience } = world.oidc
  for (const claims of [
    {},
    { nbf: null, iat: null },
    { nbf: now - 3600, iat: now - 3600 },
    { aud: [audience] },
    { aud: ['other', audience] },
    { exp: now + 60.5 },
    { scope: 'openid', roles: ['admin'], userType: 'client-managed', extra: { deep: [1] } },
  ])
    await isAccepted(
      t,
      oauth({ jwt: await world.mint({ ...member, jwt: undefined, id: undefined, claims }) }),
      JSON.stringify(claims),
    )
})

t.test('a JWT whose exp, nbf or iat is absent where it must not be, past, future or no time is 401', async (t) => {
  const now = Math.floor(Date.now() / 1000)
  for (const claims of [
    { exp: null },
    { exp: now - 1 },
    { exp: now },
    { exp: 0 },
    { exp: -1 },
    { exp: String(now + 600) },
    { exp: 1e300 },
    { exp: true },
    { exp: [now + 600] },
    { nbf: now + 600 },
    { nbf: String(now - 600) },
    { nbf: {} },
    { iat: now + 600 },
    { iat: String(now - 600) },
    { iat: false },
  ])
    await isRefused(t, oauth({ jwt: await world.mint({ sub: member.sub, claims }) }), JSON.stringify(claims))
})

t.test('a JWT of another issuer or audience, or of none, is 401', async (t) => {
  const { issuer, audience } = world.oidc
  for (const claims of [
    { iss: null },
    { iss: '' },
    { iss: `${issuer}/` },
    { iss: issuer.toUpperCase() },
    { iss: 'https://issuer.example' },
    { iss: 'sallyport' },
    { iss: [issuer] },
    { iss: 1 },
    { aud: null },
    { aud: '' },
    { aud: [] },
    { aud: 'other' },
    { aud: ['other'] },
    { aud: `${audience}x` },
    { aud: audience.toUpperCase() },
    { aud: [audience, 1] },
    { aud: [[audience]] },
    { aud: { [audience]: true } },
  ])
    await isRefused(t, oauth({ jwt: await world.mint({ sub: member.sub, claims }) }), JSON.stringify(claims))
})

t.test('a JWT whose subject is not a string is 401, and creates no user', async (t) => {
  const before = await count('users', [])
  for (const sub of [
    null,
    '',
    ' ',
    '\u0000',
    'a\u0000b',
    1,
    0,
    true,
    ['demo-member'],
    { sub: 'demo-member' },
    'x'.repeat(256),
  ])
    await isRefused(
      t,
      oauth({ jwt: await world.mint({ sub: 'x', claims: { sub } }) }),
      JSON.stringify(sub).slice(0, 30),
    )
  t.equal(await count('users', []), before)
})

t.test('a JWT dies when its time comes', async (t) => {
  const dying = oauth({ jwt: await world.mint({ sub: member.sub, expiresIn: 2 }) })
  await isAccepted(t, dying, 'before exp')
  await until(async () => (await ask(dying)).status === 401, 'it expires', patienceMs)
  await isRefused(t, dying, 'after exp')
})

t.test('a JWT under 16 KiB is read, one over it is 401', async (t) => {
  const small = await world.mint({ sub: member.sub, claims: { pad: 'x'.repeat(11_500) } })
  t.ok(small.length > 15_500 && small.length <= 16_384, `${small.length}`)
  await isAccepted(t, oauth({ jwt: small }), 'small')
  const large = await world.mint({ sub: member.sub, claims: { pad: 'x'.repeat(12_200) } })
  t.ok(large.length > 16_384 && large.length < 17_500, `${large.length}`)
  await isRefused(t, oauth({ jwt: large }), 'large')
})

t.test('a JWT spelt in any other way than canonical base64url is 401', async (t) => {
  const [header = '', payload = '', signature = ''] = member.jwt.split('.')
  const alphabet = `${base62.slice(0, 52)}0123456789-_`
  // 256 bytes of signature: the lowest four bits of the last character belong to no byte.
  const twin = signature.slice(0, -1) + alphabet.charAt(alphabet.indexOf(signature.slice(-1)) + 1)
  t.same(Buffer.from(twin, 'base64url'), Buffer.from(signature, 'base64url'), 'the twin decodes to the same bytes')
  for (const [name, jwt] of Object.entries({
    'stray bits': `${header}.${payload}.${twin}`,
    'padding after the signature': `${header}.${payload}.${signature}==`,
    'padding after the header': `${header}=.${payload}.${signature}`,
    'padding after the payload': `${header}.${payload}=.${signature}`,
    'a space within': `${header}.${payload}. ${signature}`,
    'a tab within': `${header}.\t${payload}.${signature}`,
    'a character of no alphabet': `${header}.${payload}.${signature}!`,
    'quotes around': `"${member.jwt}"`,
    'a fourth part': `${member.jwt}.`,
    'five parts': `${member.jwt}.a.b`,
    'no signature': `${header}.${payload}.`,
    'two parts': `${header}.${payload}`,
    'one part': header,
    'no payload': `${header}..${signature}`,
    'a letter that is not ASCII': `${member.jwt}\u00e9`,
    'JSON serialization': JSON.stringify({ protected: header, payload, signature }),
  }))
    await isRefused(t, oauth({ jwt }), name)
})

t.test('a JWT changed after it was signed is 401', async (t) => {
  const [header = '', payload = '', signature = ''] = member.jwt.split('.')
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString())
  const forged = encode(JSON.stringify({ ...claims, sub: owner.sub }))
  const bytes = Buffer.from(signature, 'base64url')
  bytes[0] = (bytes[0] ?? 0) ^ 1
  for (const [name, jwt] of Object.entries({
    'another subject': `${header}.${forged}.${signature}`,
    'another signature': `${header}.${payload}.${bytes.toString('base64url')}`,
    'a signature of zeros': `${header}.${payload}.${Buffer.alloc(bytes.length).toString('base64url')}`,
    'the signature of another token': `${header}.${payload}.${owner.jwt.split('.')[2]}`,
    'a short signature': `${header}.${payload}.${bytes.subarray(1).toString('base64url')}`,
    'a byte order mark before the header': `${encode(`\ufeff${Buffer.from(header, 'base64url')}`)}.${payload}.${signature}`,
    'a byte order mark before the payload': `${header}.${encode(`\ufeff${Buffer.from(payload, 'base64url')}`)}.${signature}`,
    'a header that is no object': `${encode('[]')}.${payload}.${signature}`,
    'a header that is no JSON': `${encode('{')}.${payload}.${signature}`,
    'a payload that is no object': `${header}.${encode('null')}.${signature}`,
  }))
    await isRefused(t, oauth({ jwt }), name)
})

t.test('a JWT without a signature, or signed with the public key as a shared secret, is 401', async (t) => {
  const { keys } = (await (await fetch(`${world.oidc.issuer}/jwks`)).json()) as JsonValue
  const [key] = keys
  t.equal(key.kty, 'RSA', 'the key of the issuer is there')
  const pem = createPublicKey({ key, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
  const [, payload] = member.jwt.split('.')
  for (const alg of ['none', 'None', 'NONE', 'HS256', 'HS384', 'HS512']) {
    const input = `${encode(JSON.stringify({ alg, kid: key.kid }))}.${payload}`
    await isRefused(t, oauth({ jwt: `${input}.` }), `${alg}, unsigned`)
    await isRefused(t, oauth({ jwt: `${input}.${member.jwt.split('.')[2]}` }), `${alg}, signed for RS256`)
    const digest = `sha${alg.startsWith('HS') ? alg.slice(2) : '256'}`
    for (const secret of [pem, JSON.stringify(key), key.n])
      await isRefused(
        t,
        oauth({ jwt: `${input}.${createHmac(digest, secret).update(input).digest('base64url')}` }),
        alg,
      )
  }
})

t.test('a JWT that brings its own key is 401', async (t) => {
  const { keys } = (await (await fetch(`${world.oidc.issuer}/jwks`)).json()) as JsonValue
  const { kid } = keys[0]
  const { publicKey, privateKey } = await generateKeyPair('RS256')
  const jwk = { ...(await exportJWK(publicKey)), kid }
  const forge = (header: object) =>
    new SignJWT(JSON.parse(Buffer.from(member.jwt.split('.')[1] ?? '', 'base64url').toString()))
      .setProtectedHeader({ alg: 'RS256', kid, ...header })
      .sign(privateKey)
  // The recorder would show a fetch of that key.
  const { recorder } = world.backends
  for (const header of [
    {},
    { jwk },
    { jku: `${recorder}/jwks` },
    { x5u: `${recorder}/x5u` },
    { x5c: ['AAAA'] },
    { jwk, kid: 'own' },
  ])
    await isRefused(t, oauth({ jwt: await forge(header) }), Object.keys(header).join() || 'a key of no issuer')
})

t.test('a JWT of another type, or with a critical extension, is 401', async (t) => {
  for (const header of [
    { typ: 'logout+jwt' },
    { typ: 'JOSE' },
    { typ: 1 },
    { crit: ['exp'] },
    { crit: [] },
    { b64: false },
    { alg: 'RS512' },
    { alg: ['RS256'] },
    { kid: 'unknown' },
    { kid: 1 },
  ])
    await isRefused(t, oauth({ jwt: changeHeader(member.jwt, header) }), JSON.stringify(header))
})

t.test('the first login creates a human from the claims', async (t) => {
  const sub = 'first-login'
  const claims = { given_name: 'Ada', family_name: 'Lovelace', preferred_username: 'ada' }
  const jwt = await world.mint({ sub, email: 'ada@first.example', claims })
  const user = await whoIs(oauth({ jwt }))
  t.match(user, {
    id: Number,
    email: 'ada@first.example',
    username: 'ada',
    firstName: 'Ada',
    lastName: 'Lovelace',
    fullName: 'Ada Lovelace',
    userType: 'human',
    currentOrganizationId: null,
    roles: [],
  })
  t.equal((await whoIs(oauth({ jwt }))).id, user.id, 'the second request finds the same user')
  const { rows } = await database.query('select issuer, subject from user_identities where user_id = $1', [user.id])
  t.same(rows, [{ issuer: world.oidc.issuer, subject: sub }])
})

t.test('a first login without names or an address creates a user without them', async (t) => {
  const user = await whoIs(oauth({ jwt: await world.mint({ sub: 'nameless' }) }))
  t.match(user, { username: null, firstName: null, lastName: null, fullName: null, userType: 'human' })
  t.match(user.email, /^[0-9a-f]+@users\.invalid$/)
})

t.test('malformed names and addresses in claims are left out', async (t) => {
  const claims = { given_name: 1, family_name: ['x'], preferred_username: 'a\u0000b', email: 'nobody' }
  const user = await whoIs(oauth({ jwt: await world.mint({ sub: 'odd-names', claims }) }))
  t.match(user, { username: null, firstName: null, lastName: null, fullName: null, email: /@users\.invalid$/ })
})

t.test('the same e-mail under a new subject is a second user', async (t) => {
  const email = 'twice@first.example'
  const claims = { email_verified: true }
  const first = await whoIs(oauth({ jwt: await world.mint({ sub: 'twice-1', email, claims }) }))
  const second = await whoIs(oauth({ jwt: await world.mint({ sub: 'twice-2', email, claims }) }))
  t.not(first.id, second.id)
  t.same([first.email, second.email], [email, email])
  const stranger = await whoIs(oauth({ jwt: await world.mint({ sub: 'twice-3', email: owner.email, claims }) }))
  t.not(stranger.id, owner.id)
  t.same(stranger.roles, [], 'and has nothing of what the first one may')
})

t.test('subjects that differ in case or in spaces are different users', async (t) => {
  const ids = await Promise.all(
    ['Case', 'case', 'case ', ' case'].map(async (sub) => (await whoIs(oauth({ jwt: await world.mint({ sub }) }))).id),
  )
  t.equal(new Set(ids).size, 4)
})

t.test('a refused first login creates no user', async (t) => {
  const jwt = await world.mint({ sub: 'never', email: 'never@first.example', expiresIn: -60 })
  await isRefused(t, oauth({ jwt }), 'expired')
  t.equal(await count('users where email = $1', ['never@first.example']), 0)
  t.equal(await count('user_identities where subject = $1', ['never']), 0)
})

/** Logs in at a gateway on the same database that trusts the issuer's addresses; returns the user's id. */
async function trustVerifiedEmail(t: Test): Promise<(jwt: string) => Promise<number>> {
  const { issuer, audience } = world.oidc
  const issuers = [{ issuer, audience, clockToleranceSeconds: 0, linkVerifiedEmail: true }]
  const gateway = await startTestGateway(t, { world, settings: { issuers } })
  return async (jwt) => (await call(gateway.public, { path: '/users/me', headers: oauth({ jwt }) })).json().data.id
}

t.test('a first login is linked to the one human with its verified e-mail, if the issuer may', async (t) => {
  const logIn = await trustVerifiedEmail(t)
  const verified = { email_verified: true }
  const mint = (sub: string, email: string, claims: object = verified) => world.mint({ sub, email, claims })
  t.equal(await logIn(await mint('link-1', admin.email)), admin.id)
  t.equal(await logIn(await mint('link-2', admin.email.toUpperCase())), admin.id, 'in any case')
  t.equal(
    (await whoIs(oauth({ jwt: await mint('link-1', 'moved@first.example', {}) }))).id,
    admin.id,
    'and stays linked',
  )
  for (const [sub, claims] of [
    ['unverified', { email_verified: false }],
    ['silent', {}],
    ['texted', { email_verified: 'true' }],
  ] as const)
    t.not(await logIn(await mint(`link-${sub}`, member.email, claims)), member.id, sub)
  t.not(await logIn(await mint('link-robot', 'robot@demo.example')), robot.id, 'never to a service account')
})

t.test('an address that two humans share links to neither', async (t) => {
  const logIn = await trustVerifiedEmail(t)
  const email = 'shared@first.example'
  const ids = await Promise.all(
    ['shared-1', 'shared-2'].map(async (sub) => (await whoIs(oauth({ jwt: await world.mint({ sub, email }) }))).id),
  )
  t.notOk(ids.includes(await logIn(await world.mint({ sub: 'shared-3', email, claims: { email_verified: true } }))))
})

t.test('the identity header is never a credential', async (t) => {
  await world.clearRecorder()
  t.equal((await ask(oauth(owner))).status, 200)
  const [recorded] = await world.recorded()
  const identity = recorded?.headers.find(([name]) => name.toLowerCase() === 'x-gateway-identity')?.[1] ?? ''
  t.match(identity, /^[\w-]+\.[\w-]+\.[\w-]+$/, 'a backend got one')
  await isRefused(t, { 'x-gateway-identity': identity }, 'under its own name')
  await isRefused(t, { x_gateway_identity: identity }, 'under an alias')
  await isRefused(t, { 'x-oauth-access-token': identity }, 'as a JWT')
  await isRefused(t, bearer(identity), 'as an API token')
})

t.test('the identity header does not change who a credential belongs to', async (t) => {
  await world.clearRecorder()
  await ask(oauth(owner))
  const identityOf = async (): Promise<string> =>
    (await world.recorded()).at(-1)?.headers.find(([name]) => name.toLowerCase() === 'x-gateway-identity')?.[1] ?? ''
  const subjectOf = (jws: string) => JSON.parse(Buffer.from(jws.split('.')[1] ?? '', 'base64url').toString()).sub
  const identity = await identityOf()
  t.equal(subjectOf(identity), String(owner.id))
  await ask({ ...oauth(member), 'x-gateway-identity': identity })
  t.equal(subjectOf(await identityOf()), String(member.id))
})

const lastUse = async (id: number): Promise<Date | null> => {
  const { rows } = await database.query('select last_used_at from auth_access_tokens where id = $1', [id])
  return rows[0]?.last_used_at ?? null
}

t.test('the use of an API token is written some seconds later, and only a successful one', async (t) => {
  const [used, refused] = [await storeToken(robot.id), await storeToken(robot.id, "now() - interval '1 hour'")]
  const humans = await storeToken(member.id)
  const beforeMs = Date.now()
  t.equal((await ask(bearer(refused.token))).status, 401)
  t.equal((await ask(bearer(humans.token))).status, 401)
  t.equal((await ask(bearer(composeToken(used.id, drawSecret())))).status, 401)
  t.equal(await lastUse(used.id), null, 'guesses are no use')
  t.equal((await ask(bearer(used.token))).status, 200)
  const afterMs = Date.now()
  await until(async () => (await lastUse(used.id)) !== null, 'the use is written', patienceMs)
  const atMs = (await lastUse(used.id))?.getTime() ?? 0
  t.ok(atMs >= beforeMs && atMs <= afterMs, 'with the time of the use')
  t.same([await lastUse(refused.id), await lastUse(humans.id)], [null, null])
})

t.test('the uses of an API token are written at most once a minute', async (t) => {
  const writes: (readonly unknown[])[] = []
  const uses = collectTokenUses(
    async (_statement, values) => {
      writes.push(values)
      return []
    },
    (error) => t.fail(String(error)),
  )
  t.teardown(uses.stop)
  const at = (seconds: number) => new Date(1_800_000_000_000 + seconds * 1000)
  for (let second = 0; second < 180; second++) {
    uses.note(7, at(second))
    if (second % 5 === 4) await uses.flush()
  }
  t.same(writes, [
    [[7], [at(4)]],
    [[7], [at(64)]],
    [[7], [at(124)]],
  ])
})

t.test('uses that come while others are written are those of the same minute, or wait for their own', async (t) => {
  const written: unknown[] = []
  const at = (seconds: number) => new Date(1_800_000_000_000 + seconds * 1000)
  const meanwhile = [at(1), at(61)]
  const uses = collectTokenUses(
    async (_statement, [, times]) => {
      written.push(times)
      const next = meanwhile.shift()
      if (next) uses.note(7, next)
      return []
    },
    (error) => t.fail(String(error)),
  )
  t.teardown(uses.stop)
  uses.note(7, at(0))
  await uses.flush()
  await uses.flush()
  t.same(written, [[at(0)]], 'a second later is the same minute')
  uses.note(7, at(60))
  await uses.flush()
  await uses.flush()
  t.same(written, [[at(0)], [at(60)]])
  uses.note(7, at(122))
  meanwhile.push(at(182))
  await uses.flush()
  await uses.flush()
  t.same(written.slice(2), [[at(122)], [at(182)]], 'a minute later is another')
})

t.test('uses that could not be written are written later', async (t) => {
  let isDown = true
  const writes: (readonly unknown[])[] = []
  const uses = collectTokenUses(
    async (_statement, values) => {
      if (isDown) throw new Error('down')
      writes.push(values)
      return []
    },
    () => undefined,
  )
  t.teardown(uses.stop)
  uses.note(2, new Date(1))
  uses.note(1, new Date(2))
  await t.rejects(uses.flush())
  isDown = false
  await uses.flush()
  t.same(
    writes,
    [
      [
        [1, 2],
        [new Date(2), new Date(1)],
      ],
    ],
    'in one batch, in the order of the ids',
  )
})

/** Stops every process of the database during `work`, so that queries hang. */
async function whileFrozen(work: () => Promise<void>): Promise<void> {
  const thaw = freezePostgres(Number(world.world.postgres.pid()))
  try {
    // Cached entries answer for a second.
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    await work()
  } finally {
    thaw()
    await until(
      async () => (await ask(bearer(robot.apiKey))).status === 200,
      'the gateway finds its database again',
      patienceMs,
    )
  }
}

t.test(
  'with the database frozen a malformed API token is still 401: no store read, while a well-formed one is 503',
  async (t) => {
    const unknown = composeToken(2_147_483_647, drawSecret())
    await whileFrozen(async () => {
      for (const [name, token] of Object.entries(malformedTokens)) await isRefused(t, bearer(token), name)
      await world.clearRecorder()
      for (const token of [robot.apiKey, robot.revoked, unknown]) {
        const answer = await ask(bearer(token))
        t.match(answer.json(), { success: false, error: { status: 503, code: 'directory_unavailable' } })
        t.equal(answer.status, 503)
      }
      t.same(await world.recorded(), [])
    })
  },
)

t.test('with the database frozen a bad JWT is still 401, while a good one is 503', async (t) => {
  const late = await world.mint({ sub: member.sub, expiresIn: -1 })
  await whileFrozen(async () => {
    await isRefused(t, oauth({ jwt: late }), 'expired')
    // A known key: for an unknown one the gateway would ask the issuer, which may be slow on a busy machine.
    await isRefused(t, oauth({ jwt: member.jwt.replace(/[^.]+$/, late.split('.')[2] ?? '') }), 'forged')
    await isRefused(t, {}, 'none')
    await world.clearRecorder()
    t.equal((await ask(oauth(member))).status, 503)
    t.same(await world.recorded(), [])
  })
})

t.test('no token, secret, hash or JWT appears in the log or in the metrics', async (t) => {
  const { secret } = takeApart(robot.apiKey)
  const guess = composeToken(2_147_483_647, drawSecret())
  const login = await world.mint({ sub: 'logged', email: 'logged@first.example' })
  const late = await world.mint({ sub: member.sub, expiresIn: -1 })
  const requests: Headers[] = [
    bearer(robot.apiKey),
    bearer(robot.revoked),
    bearer(robot.expired),
    bearer(guess),
    bearer(malformedTokens['a wrong checksum']),
    oauth({ jwt: login }),
    oauth({ jwt: late }),
    oauth({ jwt: `${member.jwt}x` }),
    { 'x-oauth-access-token': robot.apiSecret },
    bearer(owner.jwt),
    { ...oauth(member), ...bearer(robotAdmin.apiKey) },
    { authorization: [`Bearer ${robotAdmin.apiSecret}`, 'Basic x'] },
    { ...oauth(member), cookie: `t=${robot.apiSecret}`, 'x-extra': robot.apiSecret },
  ]
  for (const headers of requests) await ask(headers, `${path}?token=${robot.apiKey}&jwt=${login}`)
  await whileFrozen(async () => {
    t.equal((await ask(bearer(robot.apiKey))).status, 503)
    t.equal((await ask(oauth({ jwt: login }))).status, 503)
  })
  const mark = `mark-${drawSecret()}`
  await ask({ 'x-request-id': mark })
  const readLog = () => readFileSync(join(world.directory, 'gateway.log'), 'utf8')
  await until(async () => readLog().includes(mark), 'the log has our last line', patienceMs)
  const log = readLog()
  t.match(log, /directory_unavailable/, 'the failures are in it')
  const metrics = await (await fetch(`${world.admin}/metrics`)).text()
  t.match(metrics, /sallyport_requests_total\{/)
  const secrets = [
    ...[
      robot.apiKey,
      robot.apiSecret,
      robot.revoked,
      robot.expired,
      robotAdmin.apiKey,
      robotAdmin.apiSecret,
      guess,
    ].flatMap((token) => [token, token.split('.')[1] ?? '', takeApart(token).secret, hashOf(takeApart(token).secret)]),
    ...[member.jwt, owner.jwt, login, late].flatMap((jwt) => jwt.split('.').slice(1)),
    secret.slice(0, 40),
  ]
  for (const text of secrets) {
    if (text.length < 20) throw new Error('too short to be looked for')
    t.notOk(log.includes(text), 'not in the log')
    t.notOk(metrics.includes(text), 'not in the metrics')
  }
})
