import { once } from 'node:events'
import { connect } from 'node:net'
import { createRemoteJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose'
import t from 'tap'
import { startIssuer } from '../../demo/issuer.ts'

const audience = 'sallyport-demo'

t.test('discovery and JWKS verify a minted token', async (t) => {
  const demo = await startIssuer({ audience })
  t.teardown(demo.stop)
  const discovery = (await (await fetch(`${demo.issuer}/.well-known/openid-configuration`)).json()) as {
    issuer: string
    jwks_uri: string
  }
  t.equal(discovery.issuer, demo.issuer)
  t.match(demo.issuer, /^http:\/\/127\.0\.0\.1:\d+$/)

  const { status, body } = await post(demo.mintUrl, JSON.stringify({ sub: 'u1', email: 'u1@example.test' }))
  t.equal(status, 200)
  const keys = createRemoteJWKSet(new URL(discovery.jwks_uri))
  for (const jwt of [String(body.jwt), await demo.mint({ sub: 'u1', email: 'u1@example.test' })]) {
    const { payload, protectedHeader, key } = await jwtVerify(jwt, keys, {
      issuer: demo.issuer,
      audience,
      typ: 'at+jwt',
      requiredClaims: ['sub', 'exp', 'iat', 'nbf'],
    })
    t.match(payload, { sub: 'u1', email: 'u1@example.test' })
    t.equal(Number(payload.exp) - Number(payload.iat), 12 * 60 * 60)
    t.match(protectedHeader, { alg: 'RS256', kid: String })
    t.match(key, { algorithm: { modulusLength: 2048 } })
  }
})

t.test('claims override the registered ones, null removes one, and a lifetime may be negative', async (t) => {
  const demo = await startIssuer({ audience })
  t.teardown(demo.stop)
  const claims = {
    iss: 'https://other.test',
    aud: ['a', 'b'],
    sub: 7,
    exp: 'soon',
    iat: null,
    nbf: null,
    extra: { a: 1 },
  }
  const request = { sub: 'u1', email: 'u1@example.test', expiresIn: 60, claims }
  const jwt = String((await post(demo.mintUrl, JSON.stringify(request))).body.jwt)
  t.same(decodeJwt(jwt), {
    iss: 'https://other.test',
    aud: ['a', 'b'],
    sub: 7,
    exp: 'soon',
    extra: { a: 1 },
    email: 'u1@example.test',
  })
  t.type(decodeProtectedHeader(jwt).kid, 'string')
  t.notHas(decodeJwt(await demo.mint({ sub: 'u1', claims: { exp: null, sub: null } })), { exp: Number })

  const late = decodeJwt(await demo.mint({ sub: 'u1', expiresIn: -60 }))
  t.equal(Number(late.exp) - Number(late.iat), -60)
  t.notOk('email' in late)
})

t.test('a malformed request gets an error in JSON, and the next request is served', async (t) => {
  const demo = await startIssuer({ audience })
  t.teardown(demo.stop)
  const bad = {
    'the body is not JSON': '{',
    'the body must be a JSON object': '[]',
    '"sub" must be a string': '{"email":"a"}',
    '"email" must be a string': '{"sub":"a","email":1}',
    '"expiresIn" must be a whole number of seconds': '{"sub":"a","expiresIn":"1h"}',
    '"claims" must be an object': '{"sub":"a","claims":[]}',
    'unknown field "expires"': '{"sub":"a","expires":1}',
  }
  for (const [error, text] of Object.entries(bad)) {
    t.same(await post(demo.mintUrl, text), { status: 400, body: { error } })
  }
  t.equal((await post(demo.mintUrl, JSON.stringify({ sub: 'a'.repeat(65 * 1024) }))).status, 413)
  t.equal((await fetch(demo.mintUrl)).status, 404)
  t.equal((await post(demo.mintUrl, '{"sub":"a"}')).status, 200)
})

t.test('the issuer listens on loopback only, and stop ends idle connections at once', async (t) => {
  await t.rejects(startIssuer({ audience, host: '0.0.0.0' }), /loopback addresses only/)
  const demo = await startIssuer({ audience, host: '::1' })
  t.match(demo.issuer, /^http:\/\/\[::1\]:\d+$/)
  const socket = connect(Number(new URL(demo.issuer).port), '::1')
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  const closed = once(socket, 'close')
  await Promise.all([demo.stop(), closed])
  await demo.stop()
})

async function post(url: string, body: string): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(url, { method: 'POST', body })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}
