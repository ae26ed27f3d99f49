// In a process of its own: it looks for garbage.
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { fetchThrough } from '../../../../gateway/http/outsiders.ts'
import { describeError } from '../../../../gateway/observe/log/log.ts'
import type { Fetch } from '../../../../gateway/stages/authenticate/ask-issuer.ts'
import { createKeyLoader, type KeyRoute } from '../../../../gateway/stages/authenticate/jwks/fetch.ts'
import { startFairClock } from '../../../support/fair-clock.ts'
import { createSigner } from '../../../support/key-set.ts'

const first = await createSigner('first')

const { signal } = new AbortController()

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const usualRoute: KeyRoute = { through: (work) => fetchThrough({}, work), timeoutMs: 5_000, insecure: false }

const loadOnce = (issuer: string, jwksUri: string | undefined) =>
  createKeyLoader(issuer, jwksUri, usualRoute)({ reason: 'refresh', signal })

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
    json({ keys: [first.jwk] })(request, response)
  })
  t.same(await loadOnce('https://issuer.example', `${origin}/keys?v=1`), [first.jwk])
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
    t.same(await loadOnce(`${origin}${path}`, undefined), [first.jwk], path)
  }
})

t.test('a discovery document that names another issuer is refused', async (t) => {
  for (const issuer of ['https://other.example', undefined, null, 1]) {
    const origin = await serveDiscovery(t, '', (origin) => ({ issuer, jwks_uri: `${origin}/keys` }))
    await t.rejects(loadOnce(origin, undefined), /names the issuer .*, and issuers has/)
  }
  const origin = await serveDiscovery(t, '', (origin) => ({ issuer: `${origin}/`, jwks_uri: `${origin}/keys` }))
  await t.rejects(
    loadOnce(origin, undefined),
    /names the issuer "http.*\/", and issuers has/,
    'a slash makes another name',
  )
})

t.test('a discovery document without an address is refused', async (t) => {
  for (const jwks_uri of [undefined, null, 1, 'not an address']) {
    const origin = await serveDiscovery(t, '', (origin) => ({ issuer: origin, jwks_uri }))
    await t.rejects(loadOnce(origin, undefined))
  }
})

t.test('an issuer on loopback leads to http on another machine where it is marked insecure alone', async (t) => {
  const jwks_uri = 'http://keys.invalid/keys'
  const origin = await serveDiscovery(t, '', (origin) => ({ issuer: origin, jwks_uri }))
  await t.rejects(loadOnce(origin, undefined), /is http on another machine. Set issuers\[\].insecure/)
  const asked: string[] = []
  const ask: Fetch = (url, init) => {
    asked.push(url)
    return fetch(url.replace('http://keys.invalid', origin), init)
  }
  const route: KeyRoute = { through: (work) => work(ask), timeoutMs: 5_000, insecure: true }
  t.same(await createKeyLoader(origin, undefined, route)({ reason: 'refresh', signal }), [first.jwk])
  t.same(asked, [`${origin}/.well-known/openid-configuration`, jwks_uri])
})

t.test('a redirect is not followed', async (t) => {
  for (const status of [301, 302, 303, 307, 308]) {
    const asked: (string | undefined)[] = []
    const origin = await serve(t, (request, response) => {
      asked.push(request.url)
      if (request.url === '/keys') response.writeHead(status, { location: '/elsewhere' }).end()
      else json({ keys: [first.jwk] })(request, response)
    })
    await t.rejects(loadOnce('https://issuer.example', `${origin}/keys`), String(status))
    t.same(asked, ['/keys'])
  }
})

t.test('an answer other than 200 is refused, whatever it holds', async (t) => {
  for (const status of [201, 203, 404, 429, 500, 503]) {
    const origin = await serve(t, json({ keys: [first.jwk] }, status))
    await t.rejects(loadOnce('https://issuer.example', origin), String(status))
  }
})

t.test('an answer without a key set is refused', async (t) => {
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
    await t.rejects(loadOnce('https://issuer.example', origin), text)
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
    const loading = loadOnce('https://issuer.example', origin)
    if (isRead) t.same(await loading, [])
    else await t.rejects(loading, /too large/)
  }
})

t.test('a key set of 256 keys is read, a larger one is refused', async (t) => {
  const list = (length: number): RequestListener => json({ keys: Array.from({ length }, () => first.jwk) })
  t.equal((await loadOnce('https://issuer.example', await serve(t, list(256)))).length, 256)
  await t.rejects(loadOnce('https://issuer.example', await serve(t, list(257))), /too many/)
})

t.test('an answer that grows past 1 MiB when it is unpacked is refused', async (t) => {
  const body = gzipSync(JSON.stringify({ keys: [], pad: 'x'.repeat(4 * 1024 * 1024) }))
  t.ok(body.length < 64 * 1024)
  const origin = await serve(t, (_request, response) =>
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(body),
  )
  await t.rejects(loadOnce('https://issuer.example', origin), /too large/)
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
  await t.rejects(loadOnce('https://issuer.example', origin), /too large/)
  await closed
})

/** An issuer with discovery that says what it was asked, and answers each path as the test wants it. */
async function serveMovable(t: Test) {
  const asked: string[] = []
  const answers: Record<string, RequestListener> = {}
  const origin = await serve(t, (request, response) => {
    asked.push(String(request.url))
    const answer = answers[String(request.url)] ?? json({}, 404)
    answer(request, response)
  })
  const publishAt = (path: string): void => {
    answers['/.well-known/openid-configuration'] = json({ issuer: origin, jwks_uri: `${origin}${path}` })
  }
  publishAt('/keys')
  answers['/keys'] = json({ keys: [first.jwk] })
  return { origin, asked, answers, publishAt, load: createKeyLoader(origin, undefined, usualRoute) }
}

const discovery = '/.well-known/openid-configuration'

t.test('the address of the keys is remembered, so a refresh is one request', async (t) => {
  const { asked, load } = await serveMovable(t)
  for (let count = 0; count < 3; count++) t.same(await load({ reason: 'refresh', signal }), [first.jwk])
  t.same(asked, [discovery, '/keys', '/keys', '/keys'])
})

t.test('after any failure the keys are looked for again', async (t) => {
  const { origin, asked, answers, publishAt, load } = await serveMovable(t)
  await load({ reason: 'refresh', signal })
  for (const fail of [json({}, 500), json({ keys: 1 }), ((_, response) => response.destroy()) as RequestListener]) {
    answers['/keys'] = fail
    await t.rejects(load({ reason: 'refresh', signal }))
    answers['/moved'] = json({ keys: [first.jwk] })
    publishAt('/moved')
    asked.length = 0
    t.same(await load({ reason: 'refresh', signal }), [first.jwk])
    t.same(asked, [discovery, '/moved'])
    publishAt('/keys')
    answers['/keys'] = json({ keys: [] })
    answers['/moved'] = json({}, 404)
    await t.rejects(load({ reason: 'refresh', signal }))
    await load({ reason: 'refresh', signal })
  }
  answers[discovery] = json({}, 500)
  answers['/keys'] = json({}, 500)
  await t.rejects(load({ reason: 'refresh', signal }))
  answers['/keys'] = json({ keys: [] })
  await t.rejects(load({ reason: 'refresh', signal }), /500/, 'nothing is left to go by')
  answers[discovery] = json({ issuer: origin, jwks_uri: `${origin}/keys` })
  t.same(await load({ reason: 'refresh', signal }), [])
})

t.test('keys that moved while their old address still answers are found by an unknown key', async (t) => {
  const { asked, answers, publishAt, load } = await serveMovable(t)
  await load({ reason: 'refresh', signal })
  publishAt('/moved')
  answers['/moved'] = json({ keys: [] })
  t.same(await load({ reason: 'refresh', signal }), [first.jwk])
  t.same(await load({ reason: 'unknown-key', signal }), [])
  asked.length = 0
  t.same(await load({ reason: 'refresh', signal }), [])
  t.same(asked, ['/moved'], 'and remembered there')
})

t.test('a fetch ends at once when the gateway stops, and none begins after that', async (t) => {
  const { asked, answers, load } = await serveMovable(t)
  const reached = new Promise<void>((resolve) => {
    answers[discovery] = () => resolve()
  })
  const stopping = new AbortController()
  const loading = load({ reason: 'refresh', signal: stopping.signal })
  await reached
  stopping.abort()
  await t.rejects(loading, /stopping/)
  await t.rejects(load({ reason: 'refresh', signal: stopping.signal }), /stopping/)
  t.same(asked, [discovery])
})

t.test('the connection of an unread answer is closed', async (t) => {
  let closed: Promise<unknown> | undefined
  const origin = await serve(t, (_request, response) => {
    closed = once(response, 'close')
    response.writeHead(500).write('x'.repeat(64 * 1024))
  })
  const passedMs = startFairClock(t)
  await t.rejects(loadOnce('https://issuer.example', origin), /answered 500/)
  await closed
  t.ok(passedMs() < 4_000, 'long before the time is up')
})

t.test('a user name or password in an address is neither sent nor quoted', async (t) => {
  const asked: string[] = []
  const origin = await serve(t, (request, response) => {
    asked.push(String(request.url))
    json({ keys: [] })(request, response)
  })
  for (const secret of ['user:hunter2', 'hunter2', ':hunter2']) {
    const error = await loadOnce('https://issuer.example', origin.replace('//', `//${secret}@`)).then(
      () => undefined,
      (reason: Error) => reason,
    )
    t.ok(error, secret)
    t.notMatch(JSON.stringify(describeError(error)), /hunter2/)
  }
  t.same(asked, [])
})

t.test(
  'an issuer that hangs is given up after 5 s: before its head, within its body, between two answers',
  async (t) => {
    const silent = await serve(t, () => undefined)
    const halfway = await serve(t, (_request, response) => response.write('{"keys":'))
    const { origin, answers, publishAt, load } = await serveMovable(t)
    publishAt('/silent')
    const describe = answers[discovery]
    answers[discovery] = (request, response) => setTimeout(() => describe?.(request, response), 2_500)
    answers['/silent'] = () => undefined
    // Node's own `fetch` loses its signal with the next collection, and would read on forever.
    const collecting = setInterval(collectGarbage, 200)
    t.teardown(() => clearInterval(collecting))
    const startedMs = performance.now()
    const passedMs = startFairClock(t)
    await Promise.all(
      [loadOnce(origin, silent), loadOnce(origin, halfway), load({ reason: 'refresh', signal })].map((loading) =>
        t.rejects(loading, /did not answer in 5000 ms/),
      ),
    )
    const tookMs = performance.now() - startedMs
    t.ok(tookMs > 4_500 && passedMs() < 7_000, `gave up after ${Math.round(tookMs)} ms`)
  },
)
