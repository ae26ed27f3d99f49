import { createHash, randomBytes, X509Certificate } from 'node:crypto'
import { renameSync, writeFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { loadConfiguration } from '../../gateway/configuration/configuration.ts'
import { startGateway } from '../../gateway/run/boot/gateway.ts'
import { createAuthority, type Issued, ownNames, testCertificates } from '../support/certificates.ts'
import { call } from '../support/client.ts'
import { startFairClock } from '../support/fair-clock.ts'
import { openRawClient, openRoute, startTestGateway, until, writeConfiguration } from '../support/gateway.ts'
import type { AnswerHttp } from '../support/http-upstream.ts'
import { startSecureUpstream } from '../support/secure-upstream.ts'
import { handshake, socketRoute } from '../support/websocket.ts'

const answerOk: AnswerHttp = (request, response) => {
  request.resume().on('end', () => response.end('the upstream says so'))
}

const modelRoute = { ...openRoute, id: 'model', match: { path: '/model/*' }, surface: 'model' }

type Settings = Readonly<Record<string, unknown>>

async function start(t: Test, upstream: Settings) {
  const gateway = await startTestGateway(t, {
    routes: [socketRoute, modelRoute],
    // The other names of the tests keep their address.
    upstreams: { platform: upstream },
  })
  const metric = async (labelled: string): Promise<number> => {
    const { text } = await call(gateway.admin, { path: '/metrics' })
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(labelled))
        ?.split(' ')
        .at(-1),
    )
  }
  return { gateway, metric, get: (path = '/x', headers = {}) => call(gateway.public, { path, headers }) }
}

const serialOf = ({ cert }: Issued): string => new X509Certificate(cert).serialNumber

testCertificates(t, 'upstreams on TLS', async (t) => {
  const authority = createAuthority(t)
  const own = authority.issue(ownNames)
  const ca = authority.cert

  await t.test('a good chain serves, on one connection for one request after the other', async (t) => {
    const upstream = await startSecureUpstream(t, own, answerOk)
    const { get } = await start(t, { url: upstream.url, tls: { ca }, preserveHost: true })
    for (const host of ['one.example', 'two.example', '127.0.0.1'])
      t.match(await get('/x', { host }), { status: 200, text: 'the upstream says so' })
    t.same(
      upstream.visits().map(({ serverName }) => serverName),
      ['localhost'],
      'whatever Host the client has sent',
    )
  })

  await t.test(
    'a certificate that does not hold is 503 in the surface’s shape, and tells the client nothing',
    async (t) => {
      let requests = 0
      const count: AnswerHttp = (_request, response) => {
        requests += 1
        response.end('the upstream says so')
      }
      process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
      t.teardown(() => Reflect.deleteProperty(process.env, 'NODE_TLS_REJECT_UNAUTHORIZED'))
      const foreign = createAuthority(t)
      const cases: readonly (readonly [what: string, issued: Issued, tls: Settings])[] = [
        ['of another name', authority.issue(['DNS:elsewhere.example']), { ca }],
        ['of another name than is asked for', own, { ca, serverName: 'elsewhere.example' }],
        ['of an unknown authority', foreign.issue(ownNames), { ca }],
        ['that has expired', authority.issue(ownNames, -1), { ca }],
        ['of an authority that the public ones do not know', own, {}],
      ]
      for (const [what, issued, tls] of cases) {
        const { url } = await startSecureUpstream(t, issued, count)
        const { get } = await start(t, { url, tls })
        for (const [path, shape] of [
          ['/x', { success: false, error: { status: 503, code: 'upstream_unavailable' } }],
          ['/model/x', { error: { type: 'server_error', code: 'upstream_unavailable' } }],
        ] as const) {
          const answer = await get(path)
          t.equal(answer.status, 503, what)
          t.match(answer.json(), shape, what)
          t.notMatch(answer.text, /certificate|localhost|elsewhere|TLS|SSL|says so/i, what)
        }
      }
      t.equal(requests, 0, 'nothing is said to an upstream that is not who it should be')
    },
  )

  await t.test('`serverName` stands for the host of the address', async (t) => {
    const upstream = await startSecureUpstream(t, authority.issue(['DNS:backend.internal']), answerOk)
    const url = `https://127.0.0.1:${upstream.port}`
    const { get } = await start(t, { url, tls: { ca, serverName: 'backend.internal' } })
    t.equal((await get()).status, 200)
    t.equal(upstream.visits()[0]?.serverName, 'backend.internal')
  })

  await t.test('an address is checked where it is one', async (t) => {
    const upstream = await startSecureUpstream(t, own, answerOk)
    const { get } = await start(t, { url: `https://127.0.0.1:${upstream.port}`, tls: { ca } })
    t.equal((await get()).status, 200)
    const named = await startSecureUpstream(t, authority.issue(['DNS:localhost']), answerOk)
    const other = await start(t, { url: `https://127.0.0.1:${named.port}`, tls: { ca } })
    t.equal((await other.get()).status, 503)
  })

  await t.test(
    'an upstream that asks for a certificate gets the gateway’s, and a new one on the next connection',
    async (t) => {
      const clients = createAuthority(t)
      const demanding = { requestCert: true, rejectUnauthorized: true, ca: clients.cert }
      const upstream = await startSecureUpstream(t, own, answerOk, demanding)
      const bare = await start(t, { url: upstream.url, tls: { ca } })
      t.equal((await bare.get()).status, 503)
      const [first, second] = [clients.issue(['DNS:gateway']), clients.issue(['DNS:gateway'])]
      const folder = t.testdir({ 'tls.crt': first.cert, 'tls.key': first.key })
      const tls = { ca, cert: `file:${folder}/tls.crt`, key: `file:${folder}/tls.key` }
      const { get, metric } = await start(t, { url: upstream.url, tls })
      t.equal((await get()).status, 200)
      t.equal((await get()).status, 200)
      t.same(serials(upstream), [serialOf(first)])
      const present = ({ cert, key }: Pick<Issued, 'cert' | 'key'>): void => {
        for (const [name, text] of Object.entries({ 'tls.crt': cert, 'tls.key': key })) {
          writeFileSync(`${folder}/.${name}`, text)
          renameSync(`${folder}/.${name}`, `${folder}/${name}`)
        }
      }
      const success = () => metric('sallyport_upstream_tls_reload_success{upstream="platform"}')
      present({ ...second, key: first.key })
      await until(async () => (await success()) === 0, 'the metric', 15_000)
      t.equal((await get()).status, 200, 'the old one goes on')
      present(second)
      await until(
        async () => (await get()).status === 200 && serials(upstream).includes(serialOf(second)),
        'the second certificate',
        15_000,
      )
      t.equal(await success(), 1)
      const old = upstream.visits().filter(({ clientSerial }) => clientSerial === serialOf(first))
      await until(() => old.every(({ socket }) => socket.destroyed), 'the end of what was opened with the first')
      const foreign = createAuthority(t).issue(['DNS:gateway'])
      const refused = await start(t, { url: upstream.url, tls: { ca, cert: foreign.cert, key: foreign.key } })
      t.equal((await refused.get()).status, 503)
    },
  )

  await t.test('bodies, events and WebSockets pass', async (t) => {
    const upstream = await startSecureUpstream(t, own, (request, response) => {
      if (request.url !== '/model/events') {
        request.pipe(response)
        return
      }
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: {"type":"response.created","sequence_number":0,"response":{"id":"r"}}\n\n')
      setTimeout(() => response.destroy(), 100)
    })
    const { gateway } = await start(t, { url: upstream.url, tls: { ca } })
    const body = randomBytes(8 * 1024 * 1024)
    const echoed = await new Promise<Buffer>((resolve, reject) => {
      import('node:http').then(({ request }) => {
        const asking = request(`${gateway.public}/echo`, { method: 'POST' }, (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('end', () => resolve(Buffer.concat(chunks)))
        })
        asking.on('error', reject)
        asking.end(body)
      }, reject)
    })
    t.equal(hash(echoed), hash(body))
    const events = await call(gateway.public, { path: '/model/events' })
    t.match(events.text, /response\.created[\s\S]*response\.failed[\s\S]*worker_disconnected/)
    const client = await openRawClient(t, gateway.public)
    client.send(handshake())
    await client.until(/^HTTP\/1\.1 101 [\s\S]*\r\n\r\n/)
    client.send('hello')
    await client.until(/heard hello$/)
    client.socket.end()
    await client.closed()
  })

  await t.test('an upstream that cannot shake hands in time is 503', async (t) => {
    const { createServer } = await import('node:net')
    const server = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    t.teardown(() => server.close())
    const { port } = server.address() as { port: number }
    const gateway = await startTestGateway(t, {
      routes: [openRoute],
      upstreams: { platform: { url: `https://localhost:${port}`, tls: { ca } } },
      settings: { timeouts: { connectMs: 300 } },
    })
    const passedMs = startFairClock(t)
    t.equal((await call(gateway.public, { path: '/x' })).status, 503)
    t.ok(passedMs() < 4_000, `${passedMs()} ms`)
  })
})

const serials = ({ visits }: Awaited<ReturnType<typeof startSecureUpstream>>) =>
  [...new Set(visits().map(({ clientSerial }) => clientSerial))].filter((serial) => serial !== undefined)

const hash = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

testCertificates(t, 'TLS settings that no connection can use are reported at the start', async (t) => {
  const authority = createAuthority(t)
  const [one, other] = [authority.issue(ownNames), authority.issue(ownNames)]
  const load = async (upstream: Settings) => {
    const file = writeConfiguration(t, { upstreams: { platform: upstream } })
    await startGateway(loadConfiguration(file, {}))
  }
  const url = 'https://h'
  const cases: readonly (readonly [upstream: Settings, RegExp])[] = [
    [{ url: 'http://h', tls: { ca: authority.cert } }, /platform\.tls: needs https/],
    [{ url, tls: { ca: 'x' } }, /platform\.tls: ca holds no certificate/],
    [{ url, tls: { cert: one.cert, key: other.key } }, /platform\.tls: cert and key do not belong together/],
    [{ url, tls: { cert: one.cert } }, /tls has .*cert.* without .*key/],
    [{ url, tls: { serverName: 'a b' } }, /serverName/],
    [{ url, tls: { rejectUnauthorized: false } }, /does not know \\"rejectUnauthorized/],
  ]
  for (const [upstream, message] of cases)
    t.match(JSON.stringify(await load(upstream).catch((error: Error) => error)), message)
})
