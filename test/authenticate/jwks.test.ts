import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { createKeyLoader } from '../../gateway/authenticate/fetch-keys.ts'
import { createKeySet, type LoadKeys, usableKeys } from '../../gateway/authenticate/jwks.ts'
import { verifySignature } from '../../gateway/authenticate/signature.ts'

/** A key pair that signs: its public half, and a token under any key id. */
async function createSigner(kid: string) {
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  const jwk: JWK = { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' }
  const sign = (named = kid) =>
    new SignJWT({ sub: 'a' }).setProtectedHeader({ alg: 'ES256', kid: named }).sign(privateKey)
  return { jwk, sign }
}

const [first, second] = await Promise.all([createSigner('first'), createSigner('second')])

const maxStaleMs = 60_000

/** A key set whose issuer and clock the test holds in its hand. */
function holdKeySet(published: readonly JWK[] = [first.jwk]) {
  const issuer = { keys: published, isDown: false, fetches: 0, isHeld: false, failures: [] as unknown[] }
  let nowMs = 1_000_000
  let release: () => void = () => undefined
  const load: LoadKeys = async () => {
    issuer.fetches++
    if (issuer.isHeld) await new Promise<void>((resolve) => (release = resolve))
    if (issuer.isDown) throw new TypeError('fetch failed')
    return issuer.keys
  }
  const keys = createKeySet(load, {
    maxStaleMs,
    monotonicMs: () => nowMs,
    onFailure: (error) => issuer.failures.push(error),
  })
  return {
    issuer,
    keys,
    pass: (ms: number) => {
      nowMs += ms
    },
    release: () => release(),
    judge: async (token: string): Promise<string> =>
      verifySignature(token, keys.findKey).then(
        () => 'accepted',
        (error: { code?: string }) => String(error.code ?? error),
      ),
  }
}

t.test('a known key asks the issuer nothing', async (t) => {
  const { issuer, keys, judge, pass } = holdKeySet()
  await keys.refresh()
  for (let count = 0; count < 100; count++) {
    pass(300)
    t.equal(await judge(await first.sign()), 'accepted')
  }
  t.equal(issuer.fetches, 1)
})

t.test('before the first fetch a token fetches the keys itself', async (t) => {
  const { issuer, judge } = holdKeySet()
  t.equal(await judge(await first.sign()), 'accepted')
  t.equal(issuer.fetches, 1)
})

t.test('an unknown key triggers one fetch, which finds a key that was just published', async (t) => {
  const { issuer, keys, judge } = holdKeySet()
  await keys.refresh()
  issuer.keys = [first.jwk, second.jwk]
  t.equal(await judge(await second.sign()), 'accepted')
  t.equal(issuer.fetches, 2)
})

t.test('many tokens of an unknown key wait for one shared fetch', async (t) => {
  const { issuer, keys, judge, release } = holdKeySet()
  await keys.refresh()
  issuer.keys = [first.jwk, second.jwk]
  issuer.isHeld = true
  const token = await second.sign()
  const verdicts = Promise.all(Array.from({ length: 200 }, () => judge(token)))
  await until(() => issuer.fetches === 2)
  t.equal(await judge(await first.sign()), 'accepted', 'a known key does not wait for it')
  release()
  t.same(new Set(await verdicts), new Set(['accepted']))
  t.equal(issuer.fetches, 2)
})

t.test('10,000 unknown key ids at once make one fetch', async (t) => {
  const { issuer, keys, judge } = holdKeySet()
  await keys.refresh()
  const [, payload, signature] = (await first.sign()).split('.')
  const tokens = Array.from({ length: 10_000 }, (_, index) => {
    const header = Buffer.from(JSON.stringify({ alg: 'ES256', kid: `unknown-${index}` })).toString('base64url')
    return `${header}.${payload}.${signature}`
  })
  t.same(new Set(await Promise.all(tokens.map(judge))), new Set(['unauthenticated']))
  t.equal(issuer.fetches, 2)
})

t.test('for the sake of unknown keys the issuer is asked at most once in 30 s', async (t) => {
  const { issuer, keys, judge, pass } = holdKeySet()
  await keys.refresh()
  const stranger = await first.sign('nobody')
  t.equal(await judge(stranger), 'unauthenticated')
  t.equal(issuer.fetches, 2, 'at once')
  for (let count = 0; count < 30; count++) {
    pass(count === 29 ? 999 : 1_000)
    t.equal(await judge(stranger), 'unauthenticated')
  }
  t.equal(issuer.fetches, 2, 'not before 30 s have passed')
  pass(1)
  t.equal(await judge(stranger), 'unauthenticated')
  t.equal(issuer.fetches, 3, 'and then again')
})

t.test('an issuer that is down is asked no more often than one that is up', async (t) => {
  const { issuer, keys, judge, pass } = holdKeySet()
  await keys.refresh()
  issuer.isDown = true
  const stranger = await first.sign('nobody')
  for (let second = 0; second < 50; second++) {
    t.equal(await judge(stranger), 'issuer_unavailable')
    pass(1_000)
  }
  t.equal(issuer.fetches - 1, 2)
})

t.test('a key published within the 30 s is found by the next refresh in the background', async (t) => {
  const { issuer, keys, judge } = holdKeySet()
  await keys.refresh()
  t.equal(await judge(await first.sign('nobody')), 'unauthenticated')
  issuer.keys = [first.jwk, second.jwk]
  t.equal(await judge(await second.sign()), 'unauthenticated')
  await keys.refresh()
  t.equal(await judge(await second.sign()), 'accepted')
})

t.test('an unknown key while the issuer is down is 503, not 401', async (t) => {
  const { issuer, keys } = holdKeySet()
  await keys.refresh()
  issuer.isDown = true
  await t.rejects(verifySignature(await second.sign(), keys.findKey), { code: 'issuer_unavailable', status: 503 })
})

t.test('an issuer that was never reached gives 503', async (t) => {
  const { issuer, judge } = holdKeySet()
  issuer.isDown = true
  t.equal(await judge(await first.sign()), 'issuer_unavailable')
  t.equal(await judge(await first.sign()), 'issuer_unavailable')
})

t.test('once the issuer is back an unknown key is 401 again', async (t) => {
  const { issuer, keys, judge } = holdKeySet()
  await keys.refresh()
  issuer.isDown = true
  t.equal(await keys.refresh(), false)
  t.equal(await judge(await second.sign()), 'issuer_unavailable')
  issuer.isDown = false
  t.equal(await keys.refresh(), true)
  t.equal(await judge(await second.sign()), 'unauthenticated')
})

t.test('a bad signature under a known key is 401 even while the issuer is down', async (t) => {
  const { issuer, keys, judge } = holdKeySet()
  await keys.refresh()
  issuer.isDown = true
  await keys.refresh()
  t.equal(await judge(await second.sign('first')), 'unauthenticated')
})

t.test('known keys go on while the issuer is down, up to maxStaleMs', async (t) => {
  const { issuer, keys, judge, pass } = holdKeySet()
  await keys.refresh()
  issuer.isDown = true
  pass(maxStaleMs)
  await keys.refresh()
  t.equal(await judge(await first.sign()), 'accepted')
  pass(1)
  t.equal(await judge(await first.sign()), 'issuer_unavailable')
})

t.test('stale keys come back to life with the issuer', async (t) => {
  const { issuer, keys, judge, pass } = holdKeySet()
  await keys.refresh()
  pass(maxStaleMs + 1)
  t.equal(await judge(await first.sign()), 'accepted')
  t.equal(issuer.fetches, 2)
})

t.test('a failed refresh does not make known keys younger', async (t) => {
  const { issuer, keys, judge, pass } = holdKeySet()
  await keys.refresh()
  issuer.isDown = true
  for (let count = 0; count < 10; count++) {
    pass(maxStaleMs / 10)
    await keys.refresh()
  }
  t.equal(keys.ageMs(), maxStaleMs)
  pass(1)
  t.equal(await judge(await first.sign()), 'issuer_unavailable')
  t.equal(issuer.failures.length, 11, 'each failure was told')
})

t.test('a withdrawn key dies at the next refresh', async (t) => {
  const { issuer, keys, judge } = holdKeySet([first.jwk, second.jwk])
  await keys.refresh()
  t.equal(await judge(await first.sign()), 'accepted')
  issuer.keys = [second.jwk]
  await keys.refresh()
  t.equal(await judge(await first.sign()), 'unauthenticated')
  t.equal(await judge(await second.sign()), 'accepted')
})

t.test('a key replaced under its own id dies with the refresh', async (t) => {
  const { issuer, keys, judge } = holdKeySet()
  await keys.refresh()
  issuer.keys = [{ ...second.jwk, kid: 'first' }]
  await keys.refresh()
  t.equal(await judge(await first.sign()), 'unauthenticated')
  t.equal(await judge(await second.sign('first')), 'accepted')
})

t.test('an empty key set withdraws every key', async (t) => {
  const { issuer, keys, judge } = holdKeySet()
  await keys.refresh()
  issuer.keys = []
  await keys.refresh()
  t.equal(await judge(await first.sign()), 'unauthenticated')
})

t.test('refreshes at the same time share one fetch', async (t) => {
  const { issuer, keys, release } = holdKeySet()
  issuer.isHeld = true
  const both = Promise.all([keys.refresh(), keys.refresh()])
  release()
  t.same(await both, [true, true])
  t.equal(issuer.fetches, 1)
})

t.test('the age is that of the last good fetch, and unknown before it', async (t) => {
  const { keys, pass } = holdKeySet()
  t.equal(keys.ageMs(), undefined)
  await keys.refresh()
  pass(5)
  t.equal(keys.ageMs(), 5)
})

t.test('RSA keys are used from 2048 bits on', async (t) => {
  const { kty, n, e } = await exportJWK((await generateKeyPair('RS256', { extractable: true })).publicKey)
  t.equal(usableKeys([{ kty, n, e } as JWK]).length, 1)
  const modulus = Buffer.from(String(n), 'base64url')
  const withModulus = (bytes: Buffer): JWK => ({ kty: 'RSA', n: bytes.toString('base64url'), e: 'AQAB' })
  const halved = Buffer.from(modulus)
  halved[0] = 0x7f
  t.equal(usableKeys([withModulus(halved)]).length, 0, '2047 bits')
  t.equal(usableKeys([withModulus(Buffer.concat([Buffer.alloc(8), halved]))]).length, 0, 'zeros before it do not count')
  t.equal(usableKeys([withModulus(modulus.subarray(128))]).length, 0, '1024 bits')
})

t.test('RSA keys with an exponent of 0, 1, 2 or an even one are not used', async (t) => {
  const { n } = await exportJWK((await generateKeyPair('RS256', { extractable: true })).publicKey)
  for (const e of ['AQAB', 'Aw', 'AAEAAQ']) t.equal(usableKeys([{ kty: 'RSA', n, e } as JWK]).length, 1, e)
  for (const e of ['AQ', 'AAAB', 'AA', '', 'Ag', 'AQAA'])
    t.equal(usableKeys([{ kty: 'RSA', n, e } as JWK]).length, 0, e)
})

t.test('shared secrets, keys for encryption, foreign curves and algorithms are not used', async (t) => {
  const { jwk } = first
  t.equal(usableKeys([jwk]).length, 1)
  for (const key of [
    { kty: 'oct', k: 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8', kid: 'first' },
    { kty: 'oct', k: 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8', alg: 'HS256' },
    { ...jwk, use: 'enc' },
    { ...jwk, use: null },
    { ...jwk, key_ops: ['encrypt'] },
    { ...jwk, key_ops: [] },
    { ...jwk, alg: 'ES384' },
    { ...jwk, alg: 'HS256' },
    { ...jwk, alg: 'none' },
    { ...jwk, crv: 'P-384' },
    { ...jwk, crv: 'secp256k1' },
    { ...jwk, kty: 'OKP', crv: 'X25519' },
    { ...jwk, kty: 'XYZ' },
  ])
    t.same(usableKeys([key as JWK]), [], JSON.stringify(key))
})

t.test('a key that is none costs the others nothing', async (t) => {
  const [offCurve] = [{ ...first.jwk, y: second.jwk.y, kid: 'off-curve' }]
  const broken: unknown[] = [
    offCurve,
    { ...first.jwk, x: undefined },
    { ...first.jwk, x: 'AA' },
    { ...first.jwk, x: 1 },
    { ...first.jwk, key_ops: 'verify' },
    { ...first.jwk, key_ops: 1 },
    { kty: 'RSA', n: 1, e: 'AQAB' },
    { kty: 'RSA', e: 'AQAB' },
    { kty: 'OKP', crv: 'Ed25519', x: 'AA' },
    { kty: 'OKP', crv: 'Ed25519' },
  ]
  const { keys, judge } = holdKeySet([...(broken as JWK[]), second.jwk])
  t.equal(await keys.refresh(), true)
  t.equal(await judge(await second.sign()), 'accepted')
  t.equal(await judge(await first.sign('off-curve')), 'unauthenticated')
})

t.test('of a published private key only the public half is kept', async (t) => {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true })
  const [key] = usableKeys([await exportJWK(privateKey)])
  t.same(Object.keys(key ?? {}).sort(), ['crv', 'kty', 'use', 'x', 'y'])
})

/** A small issuer over a real socket. */
async function serve(t: Test, listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}` // a TCP listener's address is never a string
}

const json =
  (value: unknown, status = 200): RequestListener =>
  (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
  }

t.test('keys are loaded from the address that the configuration names', async (t) => {
  const asked: (string | undefined)[] = []
  const origin = await serve(t, (request, response) => {
    asked.push(request.url)
    json({ keys: [first.jwk, 'no key', null, { kid: 'no kty' }] })(request, response)
  })
  t.same(await createKeyLoader('https://issuer.example', `${origin}/keys?v=1`)(), [first.jwk])
  t.same(asked, ['/keys?v=1'])
})

/** An issuer whose discovery document is what the test says. */
async function serveDiscovery(t: Test, path: string, describe: (origin: string) => unknown): Promise<string> {
  let document: unknown
  const origin = await serve(t, (request, response) => {
    const isKeys = request.url === '/keys'
    const isDiscovery = request.url === `${path}/.well-known/openid-configuration`
    json(isKeys ? { keys: [first.jwk] } : document, isKeys || isDiscovery ? 200 : 404)(request, response)
  })
  document = describe(origin)
  return origin
}

t.test('without an address the keys are found by discovery', async (t) => {
  for (const path of ['', '/', '/realms/a', '/realms/a/']) {
    const origin = await serveDiscovery(t, path.replace(/\/$/, ''), (origin) => ({
      issuer: `${origin}${path}`,
      jwks_uri: `${origin}/keys`,
    }))
    t.same(await createKeyLoader(`${origin}${path}`, undefined)(), [first.jwk], path)
  }
})

t.test('a discovery document that names another issuer is refused', async (t) => {
  for (const issuer of ['https://other.example', undefined, null, 1]) {
    const origin = await serveDiscovery(t, '', (origin) => ({ issuer, jwks_uri: `${origin}/keys` }))
    await t.rejects(createKeyLoader(origin, undefined)(), /another issuer/)
  }
  const origin = await serveDiscovery(t, '', (origin) => ({ issuer: `${origin}/`, jwks_uri: `${origin}/keys` }))
  await t.rejects(createKeyLoader(origin, undefined)(), /another issuer/, 'a slash makes another name')
})

t.test('a discovery document without an address is refused', async (t) => {
  for (const jwks_uri of [undefined, null, 1, 'not an address']) {
    const origin = await serveDiscovery(t, '', (origin) => ({ issuer: origin, jwks_uri }))
    await t.rejects(createKeyLoader(origin, undefined)())
  }
})

t.test('a redirect is not followed', async (t) => {
  for (const status of [301, 302, 303, 307, 308]) {
    const asked: (string | undefined)[] = []
    const origin = await serve(t, (request, response) => {
      asked.push(request.url)
      if (request.url === '/keys') response.writeHead(status, { location: '/elsewhere' }).end()
      else json({ keys: [first.jwk] })(request, response)
    })
    await t.rejects(createKeyLoader('https://issuer.example', `${origin}/keys`)(), String(status))
    t.same(asked, ['/keys'])
  }
})

t.test('an answer other than 200 is refused, whatever it holds', async (t) => {
  for (const status of [201, 203, 404, 429, 500, 503]) {
    const origin = await serve(t, json({ keys: [first.jwk] }, status))
    await t.rejects(createKeyLoader('https://issuer.example', origin)(), String(status))
  }
})

t.test('an answer that is no key set is refused', async (t) => {
  for (const text of [
    '',
    'garbage',
    '<html>',
    '[]',
    'null',
    '"keys"',
    '{}',
    '{"keys":{}}',
    '{"keys":null}',
    '{"keys":[]',
  ]) {
    const origin = await serve(t, (_request, response) => response.end(text))
    await t.rejects(createKeyLoader('https://issuer.example', origin)(), text)
  }
})

t.test('an answer of 1 MiB is read, a larger one is refused', async (t) => {
  const empty = JSON.stringify({ keys: [], pad: '' }).length
  for (const [bytes, isRead] of [
    [1024 * 1024, true],
    [1024 * 1024 + 1, false],
  ] as const) {
    const body = JSON.stringify({ keys: [], pad: 'x'.repeat(bytes - empty) })
    const origin = await serve(t, (_request, response) => response.end(body))
    const load = createKeyLoader('https://issuer.example', origin)
    if (isRead) t.same(await load(), [])
    else await t.rejects(load(), /too large/)
  }
})

t.test('an answer that grows past 1 MiB when it is unpacked is refused', async (t) => {
  const body = gzipSync(JSON.stringify({ keys: [], pad: 'x'.repeat(4 * 1024 * 1024) }))
  t.ok(body.length < 64 * 1024)
  const origin = await serve(t, (_request, response) =>
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(body),
  )
  await t.rejects(createKeyLoader('https://issuer.example', origin)(), /too large/)
})

t.test('an answer without end is cut off, and its connection closed', async (t) => {
  let closed: Promise<unknown> | undefined
  const origin = await serve(t, (_request, response) => {
    closed = once(response, 'close')
    const chunk = Buffer.alloc(64 * 1024, ' ')
    const pour = (): void => {
      while (response.write(chunk));
    }
    response.on('drain', pour)
    pour()
  })
  await t.rejects(createKeyLoader('https://issuer.example', origin)(), /too large/)
  await closed
})

t.test('an issuer that hangs is given up after 5 s, before its head and within its body', async (t) => {
  const silent = await serve(t, () => undefined)
  const halfway = await serve(t, (_request, response) => response.write('{"keys":'))
  const startedMs = performance.now()
  await Promise.all(
    [silent, halfway].map((origin) => t.rejects(createKeyLoader('https://issuer.example', origin)(), origin)),
  )
  const tookMs = performance.now() - startedMs
  t.ok(tookMs > 4_500 && tookMs < 7_500, `gave up after ${Math.round(tookMs)} ms`)
})

t.test('an issuer that refuses connections is trouble of its own, not of the token', async (t) => {
  const keys = createKeySet(createKeyLoader('https://issuer.example', 'http://127.0.0.1:1/keys'), {
    maxStaleMs,
    monotonicMs: () => 0,
    onFailure: () => undefined,
  })
  await t.rejects(verifySignature(await first.sign(), keys.findKey), { code: 'issuer_unavailable', status: 503 })
})

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve))
}
