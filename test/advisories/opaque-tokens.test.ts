import { randomBytes } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { loadConfiguration } from '../../gateway/configuration/configuration.ts'
import { checkIssuers } from '../../gateway/run/boot/check-issuers.ts'
import { type ClaimsFixture, groupRules, startClaimsFixture } from '../support/claims-gateway.ts'
import { until, writeConfiguration } from '../support/gateway.ts'
import { readAnswer } from '../support/streams.ts'
import { bearer, oauth } from '../support/world.ts'
import { startIntrospection } from './introspection.ts'

// An opaque token proves nothing by itself: all that it says comes from an answer over the network. A gateway that takes
// an answer for more than it says can be led to let a stranger in.

const endpoint = await startIntrospection(t)
const clientSecret = 'canary: secret/of+the client'
const introspection = {
  endpoint: endpoint.endpoint,
  clientId: 'sally:port',
  clientSecret,
  cacheMs: 1_000,
  timeoutMs: 60_000,
}

const start = (t: Test, own: object = {}, more: object = {}, settings: Readonly<Record<string, unknown>> = {}) =>
  startClaimsFixture(t, {
    issuerSettings: { introspection: { ...introspection, ...own }, clockToleranceSeconds: 0, ...more },
    settings,
  })

const fixture = await start(t)

const draw = (): string => randomBytes(24).toString('base64url')

/** An answer about an access token, and whatever a test changes in it. */
const activeAt = ({ issuer: { issuer } }: ClaimsFixture, changes: Readonly<Record<string, unknown>> = {}) => ({
  active: true,
  iss: issuer,
  aud: 'sallyport-demo',
  sub: 'ada',
  exp: Math.floor(Date.now() / 1000) + 600,
  token_type: 'Bearer',
  groups: ['/acme/org-member'],
  ...changes,
})

const knock = async (at: ClaimsFixture, headers: Record<string, string>): Promise<string> => {
  const { status, text, json } = await at.call({ path: '/public/x', headers })
  return status === 200 ? '200' : `${status} ${json().error?.code ?? text}`
}

t.test('an active token enters with the claims of the answer, and is asked about once', async (t) => {
  const patient = await start(t, { cacheMs: 600_000 })
  const token = draw()
  endpoint.answer(token, activeAt(patient, { sid: 's' }))
  const statuses = await Promise.all(Array.from({ length: 20 }, () => knock(patient, oauth({ jwt: token }))))
  t.same(new Set(statuses), new Set(['200']))
  t.match(await patient.identityOf(oauth({ jwt: token })), { sub: `${patient.issuer.issuer}|ada` })
  t.equal(endpoint.countAsked(token), 1)
  const [question] = endpoint.asked
  t.equal(question?.form.get('token_type_hint'), 'access_token')
  t.same([...(question?.form.keys() ?? [])], ['token', 'token_type_hint'])
  // RFC 6749 2.3.1: id and secret are encoded by themselves.
  const pair = Buffer.from('sally%3Aport:canary%3A+secret%2Fof%2Bthe+client').toString('base64')
  t.equal(question?.headers.authorization, `Basic ${pair}`)
})

t.test('only the literal true is active; anything but a literal false is a failure of the issuer', async (t) => {
  for (const [active, expected] of [
    [false, '401 unauthenticated'],
    ['true', '503 issuer_unavailable'],
    [1, '503 issuer_unavailable'],
    [[true], '503 issuer_unavailable'],
    [undefined, '503 issuer_unavailable'],
  ] as const) {
    const token = draw()
    endpoint.answer(token, activeAt(fixture, { active }))
    t.equal(await knock(fixture, oauth({ jwt: token })), expected, String(active))
  }
})

t.test('the claims of an answer are judged as those of a JWT', async (t) => {
  for (const changes of [
    { iss: 'https://other.example' },
    { iss: undefined },
    { aud: 'other' },
    { aud: undefined },
    { sub: undefined },
    { sub: '' },
    { exp: undefined },
    { exp: '9999999999' },
    { exp: 1 },
    { nbf: 9_999_999_999 },
    { iat: 9_999_999_999 },
    { cnf: {} },
    { events: {} },
  ]) {
    const token = draw()
    endpoint.answer(token, activeAt(fixture, changes))
    t.equal(await knock(fixture, oauth({ jwt: token })), '401 unauthenticated', JSON.stringify(changes))
  }
})

t.test('a refresh token is active too, and does not pass for an access token', async (t) => {
  const lenient = await start(t, { requireTokenType: false })
  const marks = { token_type: undefined, token_use: undefined, typ: undefined }
  for (const [changes, strict, loose] of [
    [{}, '401 unauthenticated', '200'],
    [{ token_type: 'bearer' }, '200', '200'],
    [{ typ: 'Bearer' }, '200', '200'],
    [{ token_use: 'access_token' }, '200', '200'],
    [{ token_type: 'DPoP' }, '401 unauthenticated', '401 unauthenticated'],
    [{ token_type: 'N_A' }, '401 unauthenticated', '401 unauthenticated'],
    [{ typ: 'Refresh' }, '401 unauthenticated', '401 unauthenticated'],
    [{ token_type: 'Bearer', token_use: 'refresh_token' }, '401 unauthenticated', '401 unauthenticated'],
    [{ token_type: ['Bearer'] }, '401 unauthenticated', '401 unauthenticated'],
  ] as const)
    for (const [at, expected] of [[fixture, strict] as const, [lenient, loose] as const]) {
      const token = draw()
      endpoint.answer(token, activeAt(at, { ...marks, ...changes }))
      t.equal(await knock(at, oauth({ jwt: token })), expected, JSON.stringify(changes))
    }
})

t.test('a bad answer is a failure of the issuer: never 200, and never a false 401', async (t) => {
  const elsewhere = await startIntrospection(t)
  const active = JSON.stringify(activeAt(fixture))
  const hasty = await start(t, { timeoutMs: 300 })
  const drip = (response: ServerResponse): void => {
    const timer = setInterval(() => response.write(' '), 50)
    response.on('close', () => clearInterval(timer))
  }
  const hostile: Readonly<Record<string, string | ((response: ServerResponse) => void)>> = {
    'a redirect': (response) => response.writeHead(307, { location: elsewhere.endpoint }).end(),
    'a status beside 200': (response) => response.writeHead(201).end(active),
    'a client that is not known': (response) => response.writeHead(401).end('{"active":false}'),
    'a server’s mistake': (response) => response.writeHead(500).end(active),
    'more than 64 KiB': active.replace('{', `{"long":"${'x'.repeat(65_536)}",`),
    'a member that stands twice': active.replace('{', '{"active":false,'),
    'a member that stands twice under another spelling': active.replace('{', '{"\\u0073ub":"root",'),
    'a member that stands twice within another': active.replace('{', '{"act":{"sub":"a","sub":"b"},'),
    'a text that is cut': active.slice(0, -1),
    'a list': `[${active}]`,
    'bytes that are not UTF-8': (response) =>
      response.end(
        Buffer.concat([Buffer.from(`${active.slice(0, -1)},"x":"`), Buffer.from([0xff]), Buffer.from('"}')]),
      ),
    'brackets without end': `${active.slice(0, -1)},"x":${'['.repeat(60)}${']'.repeat(60)}}`,
    'a page': '<html>',
    nothing: '',
    'a connection that breaks': (response) => {
      response.destroy()
    },
  }
  for (const [what, answer] of Object.entries(hostile)) {
    const token = draw()
    endpoint.answer(token, answer)
    t.equal(await knock(fixture, oauth({ jwt: token })), '503 issuer_unavailable', what)
    endpoint.answer(token, activeAt(fixture))
    t.equal(await knock(fixture, oauth({ jwt: token })), '200', `${what}: the next question counts`)
  }
  for (const [what, answer] of [
    ['no answer', () => undefined],
    ['an answer that never ends', drip],
  ] as const) {
    const token = draw()
    endpoint.answer(token, answer)
    t.equal(await knock(hasty, oauth({ jwt: token })), '503 issuer_unavailable', what)
  }
  t.same(elsewhere.asked, [], 'no redirect is followed')
})

t.test('API tokens and JWTs are never asked about, wherever they stand', async (t) => {
  const opened = await start(t, {}, { tokens: { header: true, bearer: true, cookie: 'c', subprotocol: true } })
  const jwt = await opened.issuer.sign({ sub: 'ada' })
  const before = endpoint.asked.length
  for (const token of [
    `oat_${draw()}`,
    'oat_',
    `${jwt}x`,
    `eyJ.${draw()}`,
    `a.${draw()}.c`,
    'a b',
    'é',
    '%',
    `"${draw()}"`,
  ])
    for (const headers of [
      oauth({ jwt: token }),
      bearer(token),
      { cookie: `c=${token}`, accept: 'text/event-stream', 'sec-fetch-site': 'same-origin' },
    ])
      t.match(await knock(opened, headers), /^40[01] /, token)
  t.equal(endpoint.asked.length, before)
})

t.test('a token is asked about in the carriers of its issuer alone, even if it is cached', async (t) => {
  const headerAlone = await start(t, {}, {}, { cors: { origins: ['https://app.example'] } })
  const both = await start(t, {}, { tokens: { header: false, bearer: true } })
  const token = draw()
  endpoint.answer(token, activeAt(headerAlone))
  t.equal(await knock(headerAlone, bearer(token)), '401 unauthenticated')
  t.equal(await knock(both, oauth({ jwt: token })), '401 unauthenticated')
  t.equal(endpoint.countAsked(token), 0, 'it was not even asked about')
  t.equal(await knock(headerAlone, oauth({ jwt: token })), '200')
  t.equal(await knock(headerAlone, bearer(token)), '401 unauthenticated', 'although it is cached')
  endpoint.answer(token, activeAt(both))
  t.equal(await knock(both, bearer(token)), '200')
  t.equal(await knock(both, oauth({ jwt: token })), '401 unauthenticated')
})

t.test('without a setting an opaque token is 401 in every carrier', async (t) => {
  const plain = await startClaimsFixture(t, { issuerSettings: { tokens: { header: true, bearer: true } } })
  for (const headers of [oauth({ jwt: draw() }), bearer(draw())])
    t.equal(await knock(plain, headers), '401 unauthenticated')
})

t.test('a revocation takes effect', async (t) => {
  const token = draw()
  endpoint.answer(token, activeAt(fixture))
  t.equal(await knock(fixture, oauth({ jwt: token })), '200')
  endpoint.answer(token, { active: false })
  await until(async () => (await knock(fixture, oauth({ jwt: token }))) === '401 unauthenticated', 'the revocation')
})

t.test('guesses of an address are limited, and tokens in use are not', async (t) => {
  const limited = await start(
    t,
    { cacheMs: 600_000 },
    {},
    {
      authentication: { unknownTokens: { perSecond: 0.01, burst: 2 } },
      trustedProxies: ['127.0.0.1'],
    },
  )
  const from = (address: string, token: string) => ({ ...oauth({ jwt: token }), 'x-forwarded-for': address })
  const known = draw()
  endpoint.answer(known, activeAt(limited))
  for (let count = 0; count < 5; count++) t.equal(await knock(limited, from('192.0.2.1', known)), '200')
  const before = endpoint.asked.length
  const told = [draw(), draw(), draw(), draw()].map((guess) => () => knock(limited, from('192.0.2.1', guess)))
  const statuses: string[] = []
  for (const guess of told) statuses.push(await guess())
  t.same(statuses, ['401 unauthenticated', '401 unauthenticated', '429 too_many_attempts', '429 too_many_attempts'])
  t.equal(endpoint.asked.length - before, 2)
  t.equal(await knock(limited, from('192.0.2.1', known)), '200')
  t.equal(await knock(limited, from('192.0.2.2', draw())), '401 unauthenticated', 'another address')
  for (const [address, changes] of [
    ['192.0.3.1', { exp: 1 }],
    ['192.0.4.1', { aud: 'other' }],
    ['192.0.5.1', { iss: 'https://other.example' }],
  ] as const) {
    const said: string[] = []
    for (let count = 0; count < 3; count++) {
      const token = draw()
      endpoint.answer(token, activeAt(limited, changes))
      said.push(await knock(limited, from(address, token)))
    }
    t.same(said, ['401 unauthenticated', '401 unauthenticated', '429 too_many_attempts'], JSON.stringify(changes))
  }
})

t.test('an outage does not count as a guess', async (t) => {
  const limited = await start(t, {}, {}, { authentication: { unknownTokens: { perSecond: 0.01, burst: 1 } } })
  const token = draw()
  endpoint.answer(token, (response) => response.writeHead(500).end())
  for (let count = 0; count < 3; count++) t.equal(await knock(limited, oauth({ jwt: token })), '503 issuer_unavailable')
})

t.test('no more questions are open than maxInFlight, and addresses take turns', async (t) => {
  const own = await startIntrospection(t)
  const narrow = await start(
    t,
    { endpoint: own.endpoint, maxInFlight: 1, timeoutMs: 60_000 },
    {},
    { trustedProxies: ['127.0.0.1'] },
  )
  const held: ServerResponse[] = []
  const ask = (address: string) => {
    const token = draw()
    own.answer(token, (response) => void held.push(response))
    return knock(narrow, { ...oauth({ jwt: token }), 'x-forwarded-for': address })
  }
  const guesses = Array.from({ length: 30 }, () => ask('192.0.2.1'))
  await until(() => held.length === 1, 'the first question')
  const honest = ask('192.0.2.2')
  await until(async () => {
    const { text } = await fetch(`${narrow.gateway.admin}/metrics`).then(async (answer) => ({
      text: await answer.text(),
    }))
    return text.includes('\nsallyport_introspections_waiting 30\n')
  }, 'all others in the queue')
  let isAnswered = false
  void honest.then(() => (isAnswered = true))
  for (let count = 1; count <= 3 && !isAnswered; count++) {
    held.at(-1)?.end('{"active":false}')
    await until(() => held.length === count + 1 || isAnswered, 'the next question')
  }
  t.equal(await honest, '401 unauthenticated')
  t.ok(held.length <= 4, 'after few questions of the guesser')
  t.equal(own.open.most, 1)
  for (let count = held.length; count <= 31; count++) {
    held.at(-1)?.end('{"active":false}')
    await until(() => held.length > count || count >= 31, 'the rest')
  }
  t.same(new Set(await Promise.all(guesses)), new Set(['401 unauthenticated']))
})

t.test('an open stream ends when its token is revoked, and not while its issuer is down', async (t) => {
  const strong = draw()
  const other = draw()
  for (const token of [strong, other]) endpoint.answer(token, activeAt(fixture))
  const open = await readAnswer(`${fixture.gateway.public}/model/strong`, oauth({ jwt: strong }))
  const kept = await readAnswer(`${fixture.gateway.public}/model/kept`, oauth({ jwt: other }))
  await until(() => open.text() !== '' && kept.text() !== '', 'both streams')
  endpoint.answer(other, (response) => response.writeHead(503).end())
  await until(() => endpoint.countAsked(other) > 2, 'questions that fail')
  t.notOk(kept.hasEnded(), 'an unknown answer is no revocation')
  endpoint.answer(strong, { active: false })
  t.match((await open.whole()).toString(), /"x_service_error_code":"access_revoked"/)
  t.notOk(kept.hasEnded())
  kept.leave()
})

t.test('an open stream ends with its rights, and with another subject', async (t) => {
  for (const changes of [{ groups: [] }, { sub: 'eve' }, { aud: 'other' }]) {
    const token = draw()
    endpoint.answer(token, activeAt(fixture))
    const open = await readAnswer(`${fixture.gateway.public}/model/x`, oauth({ jwt: token }))
    await until(() => open.text() !== '', 'the stream')
    endpoint.answer(token, activeAt(fixture, changes))
    t.match((await open.whole()).toString(), /"access_revoked"/, JSON.stringify(changes))
  }
})

t.test('with onUnknown: end a stream ends when nothing is known of its token any more', async (t) => {
  const closing = await start(t, {}, {}, { streams: { onUnknown: 'end' } })
  const token = draw()
  endpoint.answer(token, activeAt(closing))
  const open = await readAnswer(`${closing.gateway.public}/model/x`, oauth({ jwt: token }))
  await until(() => open.text() !== '', 'the stream')
  endpoint.answer(token, (response) => response.writeHead(503).end())
  t.match((await open.whole()).toString(), /"access_unverified"/)
})

t.test('the endpoint that discovery finds is at the origin of the issuer', async (t) => {
  const issuer = await startIntrospection(t)
  const discovering = await startClaimsFixture(t, {
    settings: {
      issuers: [
        {
          issuer: issuer.origin,
          audience: 'sallyport-demo',
          jwksUri: `${issuer.origin}/keys`,
          required: false,
          directoryRules: groupRules,
          introspection: { clientId: 'us', clientSecret: 's', authentication: 'post' },
        },
      ],
    },
  })
  const token = draw()
  issuer.answer(token, { ...activeAt(discovering), iss: issuer.origin })
  const foreign = await startIntrospection(t)
  issuer.answer('discovery', { issuer: issuer.origin, introspection_endpoint: foreign.endpoint })
  t.equal(await knock(discovering, oauth({ jwt: token })), '503 issuer_unavailable')
  t.same(foreign.asked, [])
  issuer.answer('discovery', { issuer: issuer.origin, introspection_endpoint: `${issuer.origin}/i` })
  t.equal(await knock(discovering, oauth({ jwt: token })), '200')
  const question = issuer.asked.find(({ url }) => url === '/i')
  t.same([question?.form.get('client_id'), question?.form.get('client_secret')], ['us', 's'])
  t.equal(question?.headers.authorization, undefined)
})

t.test('an opaque token has one issuer, and an https issuer is asked over https', async (t) => {
  const check = (...own: readonly object[]): void => {
    const issuers = own.map((more, index) => ({ issuer: `https://${index}.example`, audience: 'a', ...more }))
    checkIssuers(loadConfiguration(writeConfiguration(t, { settings: { issuers } }), {}))
  }
  const asked = { clientId: 'a', clientSecret: 'b' }
  check({ introspection: asked }, {})
  check({ introspection: { ...asked, endpoint: 'https://elsewhere.example/i' } })
  t.throws(() => check({ introspection: asked }, { introspection: asked }), /An opaque token names no issuer; keep one/)
  for (const wrong of ['http://0.example/i', 'https://user:word@0.example/i'])
    t.throws(
      () => check({ introspection: { ...asked, endpoint: wrong } }),
      /introspection\.endpoint of .* is not https/,
    )
})
