import { appendFileSync, cpSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { freezePostgres } from '../support/freeze-postgres.ts'
import { until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { findRedisServerLack, testRedisServer } from '../support/redis.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { type Serving, startServing } from '../support/serve.ts'
import { gatherThrong } from '../support/throng.ts'
import { oauth, startTestWorld } from '../support/world.ts'
import { openCamera } from './incident-pictures.ts'

const world = await startTestWorld(t, { hasOwnServer: true })
const { member } = world.users
const camera = await openCamera(t)
const redis = findRedisServerLack() === undefined ? await startRedisServer(t) : undefined

const upstream = await startHttpUpstream(t, (request, response) => {
  const status = request.url === '/datasets' ? 500 : 200
  const end = (): void => void response.writeHead(status).end('seen')
  request.resume().on('end', () => setTimeout(end, request.url === '/v1/files' ? 2_300 : 0))
})

/** An issuer without keys, until it is closed. */
async function startEmptyIssuer(t: Test) {
  const server = createServer((_, response) => response.end('{"keys":[]}'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = (): void => {
    server.close()
    server.closeAllConnections()
  }
  t.teardown(close)
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return { url: `http://127.0.0.1:${port}`, close }
}

const anyPort = { host: '127.0.0.1', port: 0 }
const audience = 'sallyport-demo'

async function startMain(t: Test) {
  const issuer = await startEmptyIssuer(t)
  const policies = join(t.testdir({ policies: {} }), 'policies')
  cpSync(fileURLToPath(new URL('../../policies', import.meta.url)), policies, { recursive: true })
  const serving = await startServing(t, {
    world,
    upstream: upstream.url,
    settings: {
      policies: { directory: policies },
      cluster: { networks: { allow: ['127.0.0.0/8'] } },
      jwks: { refreshMs: 1_000 },
      issuers: [
        { issuer: world.oidc.issuer, audience },
        { issuer: issuer.url, audience, jwksUri: `${issuer.url}/keys`, required: false },
      ],
      ...(redis && { redis: { url: redis.url } }),
    },
  })
  return { ...serving, issuer, policies }
}

/** Few connections, and an audit that cannot be written. */
const startNarrow = (t: Test): Promise<Serving> =>
  startServing(t, {
    world,
    upstream: upstream.url,
    settings: {
      audit: { sink: '/dev/full' },
      listeners: { public: { ...anyPort, maxConnections: 30 }, decision: anyPort, admin: anyPort },
    },
  })

/** The incidents share a gateway; in a picture of one, nothing else shall be the matter. */
function share<Started>(start: (owner: Test) => Promise<Started>): (t: Test) => Promise<Started> {
  let shared: Promise<Started> | undefined
  return (own) => {
    if (camera.isOpen) return start(own)
    shared ??= start(t)
    return shared
  }
}
const openMain = share(startMain)
const openNarrow = share(startNarrow)

const get = (serving: Serving, path: string, id = 'any') =>
  call(serving.public, { path, headers: { ...oauth(member), 'x-request-id': id } })

const askTimes = (serving: Serving, count: number, path: string) =>
  Promise.all(Array.from({ length: count }, () => get(serving, path)))

const readPage = async ({ admin }: Serving, path = '/'): Promise<string> => (await call(admin, { path })).text

/** The verdict and what it is about, without marks. */
async function readVerdict(serving: Serving): Promise<string> {
  const page = await readPage(serving)
  const [word = ''] = /<p id="word".*?<\/p>/s.exec(page) ?? []
  const [problems = ''] = /<div id="problems".*?<\/div>/s.exec(page) ?? []
  return `${word} ${problems}`.replace(/<[^>]*>/g, '')
}

/** The console needs no more than this after an incident has begun. */
const namedWithinMs = 15_000

async function isNamed(serving: Serving, pattern: RegExp): Promise<void> {
  let verdict = ''
  await until(
    async () => {
      verdict = await readVerdict(serving)
      return pattern.test(verdict)
    },
    `${pattern}`,
    namedWithinMs,
  ).catch((error: Error) => {
    throw new Error(`${error.message}: ${verdict}`)
  })
}

/** Sends `count` requests without a credential over one connection. */
const sendAnonymous = (serving: Serving, count: number): Promise<void> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(serving.public)
    const socket = connect(Number(port), hostname)
    let answers = 0
    socket.on('error', reject)
    socket.on('data', (chunk) => {
      answers += chunk.toString('latin1').split('HTTP/1.1 401').length - 1
      if (answers < count) return
      socket.destroy()
      resolve()
    })
    socket.write('GET /workflows HTTP/1.1\r\nhost: gateway\r\n\r\n'.repeat(count))
  })

t.test('without an incident all is well', async (t) => {
  const main = await openMain(t)
  await askTimes(main, 20, '/workflows')
  await isNamed(main, /All is well/)
})

t.test('one route that answers 5xx', async (t) => {
  const main = await openMain(t)
  await Promise.all([askTimes(main, 5, '/datasets'), askTimes(main, 5, '/workflows')])
  await isNamed(main, /route datasets\.list: .*5 of/)
})

t.test('one cluster that cannot be reached', async (t) => {
  const main = await openMain(t)
  await askTimes(main, 5, `/clusters/${world.clusters.unreachable}/proxy/x`)
  await isNamed(main, new RegExp(`cluster ${world.clusters.unreachable} \\(unreachable\\): 5 × not reached`))
})

t.test('a slow upstream', async (t) => {
  const main = await openMain(t)
  await askTimes(main, 6, '/v1/files')
  await isNamed(main, /upstream files: is slow: one call in ten waits/)
})

t.test('a broken policy', async (t) => {
  const main = await openMain(t)
  appendFileSync(join(main.policies, 'data.yaml'), '\n  - 5\n')
  await isNamed(main, /policy files: refused/)
})

t.test('an issuer that is down', async (t) => {
  const main = await openMain(t)
  main.issuer.close()
  await isNamed(main, new RegExp(`issuer ${main.issuer.url}: its keys could not be fetched`))
})

testRedisServer(t, 'a frozen Redis', async (t) => {
  const main = await openMain(t)
  redis?.freeze()
  t.teardown(() => redis?.thaw())
  await isNamed(main, /invalidation source redis: is down/)
})

t.test('credential stuffing, which pushes out no other failure', async (t) => {
  const main = await openMain(t)
  await get(main, '/datasets', 'the-one-failure')
  await Promise.all(Array.from({ length: 20 }, () => sendAnonymous(main, 500)))
  await isNamed(main, /surge of invalid credentials: 10,0\d\d requests refused in the last minute.* from 127\.0\.0\.1/)
  const rows = (await readPage(main)).split('id="requests-table"')[1] ?? ''
  t.match(rows, 'the-one-failure', 'the one failure stands in the list')
  t.match(rows, 'credential_missing', 'beside the refusals')
  await camera.take(main, 'credentials')
})

t.test('a database that does not answer', async (t) => {
  const main = await openMain(t)
  const { postgres } = world.pids
  if (postgres === undefined) throw new Error('the database has no process')
  t.teardown(freezePostgres(postgres))
  await isNamed(main, /database: failing/)
  await camera.take(main, 'database')
})

t.test('an audit whose disk is full', async (t) => {
  const narrow = await openNarrow(t)
  await call(narrow.public, { path: '/nowhere' })
  await isNamed(narrow, /audit: cannot be written/)
})

t.test('more connections than the listener takes', async (t) => {
  const narrow = await openNarrow(t)
  await gatherThrong(t, narrow.public, 60)
  await isNamed(narrow, /overload: \d+ connections were turned away in the last minute/)
})
