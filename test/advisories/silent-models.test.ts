import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { startFairClock } from '../support/fair-clock.ts'
import { openRawClient, type RawClient, startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { populate } from '../support/population.ts'
import { startTestWorld } from '../support/world.ts'

const lastRequest = (soFar: string): string => soFar.slice(soFar.lastIndexOf('GET '))

const world = await startTestWorld(t)
const { acme, globex } = world.organizations
const { writer, assign, addAccount } = await populate(t, world)
const upstream = await startRawUpstream(t, (socket, soFar) => {
  if (lastRequest(soFar).includes('/quick ')) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
})
const gateway = await startTestGateway(t, {
  world,
  upstreams: { platform: { url: upstream.url }, other: { url: upstream.url } },
  settings: { limits: { waitingPerOrganization: 2 } },
  routes: [
    { id: 'model', match: { path: '/model/*' }, surface: 'model', upstream: 'platform' },
    { id: 'other', match: { path: '/other/*' }, surface: 'model', upstream: 'other' },
    { id: 'plain', match: { path: '/plain/*' }, surface: 'platform', upstream: 'platform' },
  ],
})
const caller = await addAccount('silent')
await assign(caller.id, globex.id, 'org-member')

const within = (organization: { id: number }, { headers } = caller) => ({
  ...headers,
  'x-organization-id': String(organization.id),
})

/** Connections that are open and whose last request waits for an answer. */
const countOpen = (): number =>
  upstream
    .sockets()
    .filter(
      ({ destroyed, readableEnded }, index) =>
        !destroyed && !readableEnded && lastRequest(upstream.received()[index] ?? '').includes('/silent '),
    ).length

/** A request whose answer the test may leave. */
async function ask(t: Test, path: string, headers: Readonly<Record<string, string>>): Promise<RawClient> {
  const client = await openRawClient(t, gateway.public)
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  client.send(`GET ${path} HTTP/1.1\r\nHost: h\r\n${lines.join('')}\r\n`)
  return client
}

const isFull = async (path = '/model/quick', organization = acme): Promise<boolean> => {
  const answer = await call(gateway.public, { path, headers: within(organization) })
  if (answer.status !== 503) return false
  t.match(answer.json(), { error: { code: 'upstream_unavailable', type: 'server_error' } })
  t.match(answer.headers, { 'retry-after': '1' })
  return true
}

t.test('an organization whose model is silent has a share of it, and no more', async (t) => {
  const waiting = [await ask(t, '/model/silent', within(acme)), await ask(t, '/model/silent', within(acme))]
  await until(() => countOpen() === 2, 'both at the model')
  t.equal(await isFull(), true)
  t.equal(await isFull('/model/quick', globex), false, 'another organization has its own')
  t.equal(await isFull('/other/quick'), false, 'another upstream has its own')
  t.equal(await isFull('/plain/quick'), false, 'other surfaces have none')
  const { text } = await call(gateway.admin, { path: '/metrics' })
  t.match(text, /^sallyport_upstream_waiting_most\{upstream="platform"\} 2$/m)
  const passedMs = startFairClock(t)
  for (const { socket } of waiting) socket.destroy()
  await until(() => countOpen() === 0, 'the release of the model')
  t.ok(passedMs() < 1_000, `a client that leaves frees its place within ${passedMs()} ms`)
  t.equal(await isFull(), false)
})

t.test('an answer frees its place, a refused one too', async (t) => {
  for (let count = 0; count < 6; count += 1) t.equal(await isFull(), false)
  t.pass()
})

t.test('a revoked caller of a silent model is refused within a second, and frees its place', async (t) => {
  const revoked = await addAccount('revoked')
  const clients = [
    await ask(t, '/model/silent', within(acme, revoked)),
    await ask(t, '/model/silent', within(acme, revoked)),
  ]
  await until(() => countOpen() === 2, 'both at the model')
  t.equal(await isFull(), true)
  const passedMs = startFairClock(t)
  await writer.query('delete from auth_access_tokens where id = $1', [revoked.tokenId])
  await until(() => countOpen() === 0, 'the release of the model')
  t.ok(passedMs() < 2_000, `${passedMs()} ms`)
  await Promise.all(clients.map((client) => client.until(/HTTP\/1\.1 401 /)))
  t.equal(await isFull(), false)
})
