import { appendFileSync, cpSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { call } from '../support/client.ts'
import { freezePostgres } from '../support/freeze-postgres.ts'
import { until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { findRedisServerLack, testRedisServer } from '../support/redis.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { type Serving, startServing } from '../support/serve.ts'
import { gatherThrong } from '../support/throng.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t, { hasOwnServer: true })
const { member } = world.users
const redis = findRedisServerLack() === undefined ? await startRedisServer(t) : undefined

const upstream = await startHttpUpstream(t, (request, response) => {
  const status = request.url === '/datasets' ? 500 : 200
  const end = (): void => void response.writeHead(status).end('seen')
  request.resume().on('end', () => setTimeout(end, request.url === '/v1/files' ? 2_300 : 0))
})

const issuer = createServer((_, response) => response.end('{"keys":[]}'))
await new Promise<void>((resolve) => issuer.listen(0, '127.0.0.1', resolve))
const closeIssuer = (): void => {
  issuer.close()
  issuer.closeAllConnections()
}
t.teardown(closeIssuer)
const issuerUrl = `http://127.0.0.1:${(issuer.address() as AddressInfo).port}` // a TCP listener's address is never a string

const policies = join(t.testdir({ policies: {} }), 'policies')
cpSync(fileURLToPath(new URL('../../policies', import.meta.url)), policies, { recursive: true })

const anyPort = { host: '127.0.0.1', port: 0 }
const audience = 'sallyport-demo'
const main = await startServing(t, {
  world,
  upstream: upstream.url,
  settings: {
    policies: { directory: policies },
    cluster: { networks: { allow: ['127.0.0.0/8'] } },
    jwks: { refreshMs: 1_000 },
    issuers: [
      { issuer: world.oidc.issuer, audience },
      { issuer: issuerUrl, audience, jwksUri: `${issuerUrl}/keys`, required: false },
    ],
    ...(redis && { redis: { url: redis.url } }),
  },
})
const narrow = await startServing(t, {
  world,
  upstream: upstream.url,
  settings: {
    audit: { sink: '/dev/full' },
    listeners: { public: { ...anyPort, maxConnections: 30 }, decision: anyPort, admin: anyPort },
  },
})

const get = (path: string, id = 'any') => call(main.public, { path, headers: { ...oauth(member), 'x-request-id': id } })

const askTimes = (count: number, path: string) => Promise.all(Array.from({ length: count }, () => get(path)))

const readPage = async ({ admin }: Serving, path = '/'): Promise<string> => (await call(admin, { path })).text

/** The verdict and what it is about, without marks. */
async function readVerdict(serving: Serving): Promise<string> {
  const page = await readPage(serving)
  const [word = ''] = /<p id="word".*?<\/p>/s.exec(page) ?? []
  const [problems = ''] = /<div id="problems".*?<\/div>/s.exec(page) ?? []
  return `${word} ${problems}`.replace(/<[^>]*>/g, '')
}

/** The console needs no more than this after the incident has begun. */
async function isNamed(pattern: RegExp, serving = main): Promise<void> {
  let verdict = ''
  await until(
    async () => {
      verdict = await readVerdict(serving)
      return pattern.test(verdict)
    },
    `${pattern}`,
    15_000,
  ).catch((error: Error) => {
    throw new Error(`${error.message}: ${verdict}`)
  })
}

/** So many requests without a credential over one connection. */
const sendAnonymous = (count: number): Promise<void> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(main.public)
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
  await askTimes(20, '/workflows')
  await isNamed(/All is well/)
  t.match(await readVerdict(main), /All is well/)
})

t.test('one route that answers 5xx', async () => {
  await Promise.all([askTimes(5, '/datasets'), askTimes(5, '/workflows')])
  await isNamed(/route datasets\.list: .*5 of/)
})

t.test('one cluster that cannot be reached', async () => {
  await askTimes(5, `/clusters/${world.clusters.unreachable}/proxy/x`)
  await isNamed(new RegExp(`cluster ${world.clusters.unreachable} \\(unreachable\\): 5 × not reached`))
})

t.test('a slow upstream', async () => {
  await askTimes(6, '/v1/files')
  await isNamed(/upstream files: is slow: one call in ten waits/)
})

t.test('a broken policy', async () => {
  appendFileSync(join(policies, 'data.yaml'), '\n  - 5\n')
  await isNamed(/policy files: refused/)
})

t.test('an issuer that is down', async () => {
  closeIssuer()
  await isNamed(new RegExp(`issuer ${issuerUrl}: its keys could not be fetched`))
})

testRedisServer(t, 'a frozen Redis', async (t) => {
  redis?.freeze()
  t.teardown(() => redis?.thaw())
  await isNamed(/invalidation source redis: is down/)
})

t.test('credential stuffing, which pushes out no other failure', async (t) => {
  await get('/datasets', 'the-one-failure')
  await Promise.all(Array.from({ length: 20 }, () => sendAnonymous(500)))
  await isNamed(/surge of invalid credentials: 10,0\d\d requests refused in the last minute.* from 127\.0\.0\.1/)
  const rows = (await readPage(main)).split('id="requests-table"')[1] ?? ''
  t.match(rows, 'the-one-failure', 'the one failure stands in the list')
  t.match(rows, 'credential_missing', 'beside the refusals')
})

t.test('a database that does not answer', async (t) => {
  const { postgres } = world.pids
  if (postgres === undefined) throw new Error('the database has no process')
  t.teardown(freezePostgres(postgres))
  await isNamed(/database: failing/)
})

t.test('an audit whose disk is full', async () => {
  await call(narrow.public, { path: '/nowhere' })
  await isNamed(/audit: cannot be written/, narrow)
})

t.test('more connections than the listener takes', async (t) => {
  await gatherThrong(t, narrow.public, 60)
  await isNamed(/overload: \d+ connections were turned away in the last minute/, narrow)
})
