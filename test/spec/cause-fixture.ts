import { cpSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { makeAuditFolder } from '../support/audit.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { startPdp } from '../support/pdp.ts'
import { type ServeOptions, type Serving, startServing } from '../support/serve.ts'
import type { TestWorld } from '../support/world.ts'

const nowhere = 'http://127.0.0.1:1'

const open = { surface: 'platform', access: 'public', upstream: 'platform' }
const closed = { surface: 'platform', upstream: 'platform' }

export const credentialCookie = '__Host-access-token'

/** Routes that the shipped policy has no need for. */
const routesWith = (moved: string) => [
  { id: 'causes.moved', match: { path: '/moved' }, ...open, upstream: moved },
  { id: 'causes.open', match: { path: '/open/*' }, ...open },
  { id: 'causes.unreachable', match: { path: '/unreachable' }, ...open, upstream: 'data' },
  { id: 'causes.rows', match: { path: '/rows/*' }, ...open },
  { id: 'causes.strict', match: { path: '/rows/strict' }, ...closed, require: { role: 'org-owner' } },
  {
    id: 'causes.ids',
    match: { path: '/ids/:any/:id/*' },
    ...closed,
    require: { role: 'org-member' },
    resource: { kind: 'agent', param: 'id' },
  },
  { id: 'causes.slow', match: { path: '/slow' }, ...open, timeouts: { firstByteMs: 100 } },
  {
    id: 'causes.upload',
    match: { path: '/upload' },
    ...open,
    timeouts: { bodyIdleMs: 100 },
    limits: { bodyBytes: 64 },
  },
  { id: 'causes.reads', match: { path: '/reads' }, ...closed, require: { ability: 'datasets:read' } },
  { id: 'causes.writes', match: { path: '/writes' }, ...closed, require: { ability: 'datasets:write' } },
  { id: 'causes.agent', match: { path: '/agents/:id' }, ...closed, resource: { kind: 'agent', param: 'id' } },
  {
    id: 'causes.tenant',
    match: { path: '/tenant', host: '*.tenants.example' },
    ...closed,
    organization: { hostLabel: 'slug' },
  },
  {
    id: 'causes.dataset',
    match: { path: '/held-datasets/:id' },
    ...closed,
    resource: { kind: 'dataset', param: 'id' },
  },
  {
    id: 'causes.cluster',
    match: { methods: ['GET'], path: '/cluster/:id/*' },
    surface: 'platform',
    cluster: { param: 'id' },
    require: { role: 'org-member', ability: 'clusters:read' },
  },
  { id: 'causes.model', match: { path: '/model/*' }, ...open, surface: 'model', stream: 'responses' },
  { id: 'causes.held', match: { path: '/held/*' }, ...closed },
  ...['pdp', 'absent', 'single'].map((pdp) => ({
    id: `causes.${pdp}`,
    match: { path: `/decided-by/${pdp}/:id` },
    ...closed,
    decision: { pdp, action: 'read', resource: { type: 'thing', param: 'id' } },
  })),
  { id: 'causes.once', match: { path: '/once' }, ...open, rateLimit: 'once' },
]
const rateLimits = { once: { requests: 1, seconds: 3600, by: 'address', onError: 'deny' } }

/** One event of more than 16 MiB. */
function sendLargeEvent(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const part = Buffer.alloc(1024 * 1024, 'x')
  response.write('data: ')
  for (let count = 0; count < 17; count++) response.write(part)
}

/** An upstream whose failures are chosen by the path. */
const startFailingUpstream = (t: Test) =>
  startHttpUpstream(t, (request, response) => {
    const { url = '' } = request
    request.resume()
    if (url.endsWith('/hangs') || url === '/slow') return
    if (url.endsWith('/closes')) request.socket.destroy()
    else if (url.endsWith('/garbage')) request.socket.end('no HTTP\r\n\r\n')
    else if (url.endsWith('/page')) response.writeHead(502, { 'content-type': 'text/html' }).end('<p>down')
    else if (url.endsWith('/large')) sendLargeEvent(response)
    else if (url.endsWith('/waits')) response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    else request.on('end', () => response.end('ok'))
  })

/** Accepts connections and never responds, so that each health check holds one of the gateway. */
async function startSilence(t: Test): Promise<number> {
  const server = createServer(() => undefined)
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve))
  t.teardown(() => server.close())
  t.teardown(() => server.closeAllConnections())
  return (server.address() as AddressInfo).port // a TCP listener's address is never a string
}

export type CauseGateway = Serving & Readonly<{ auditFile: string }>

/** Gateways in the states that provoke causes; each is `serve` in a process of its own. */
export type CauseFixture = Readonly<{
  upstreamIds: () => readonly string[]
  /** Leads a route of each gateway to another upstream, which they hear of by themselves. */
  moveRoute: () => void
  gateways: Readonly<Record<'main' | 'dark' | 'full' | 'narrow' | 'claims', CauseGateway>>
}>

/** A bug in the way of one path. */
const plantedBug = `const normalize = String.prototype.normalize
String.prototype.normalize = function (...forms) {
  if (this.includes('planted')) throw new RangeError('a planted bug')
  return normalize.apply(this, forms)
}`

/** A drain’s last second lasts until a busy machine has read the console; a second signal still ends the process. */
const longLastSecond = `process.once('SIGTERM', () => {
  const wait = setTimeout
  globalThis.setTimeout = (callback, ms, ...rest) => wait(callback, ms === 1_000 ? 60_000 : ms, ...rest)
})`

/** Unknown tokens of one address; more than may wait, so that the next is refused. */
export const guesses = 4_200

/** Below the backlog of a listener: a busy system drops a connection beyond it, whose next try comes seconds later. */
export const floodWave = 300

export const floodMs = 120_000

export async function startCauseFixture(t: Test, world: TestWorld, issuer: string): Promise<CauseFixture> {
  const upstream = await startFailingUpstream(t)
  const silence = await startSilence(t)
  const policies = join(mkdtempSync(join(tmpdir(), 'sallyport-test-')), 'policies')
  t.teardown(() => rmSync(join(policies, '..'), { recursive: true, force: true }))
  cpSync(fileURLToPath(new URL('../../policies', import.meta.url)), policies, { recursive: true })
  const writeRoutes = (moved: string): void => {
    const file = join(policies, 'causes.yaml')
    writeFileSync(`${file}.new`, JSON.stringify({ rateLimits, routes: routesWith(moved) }))
    renameSync(`${file}.new`, file)
  }
  writeRoutes('platform')
  const folder = makeAuditFolder(t)
  const upstreams = Object.fromEntries(
    ['platform', 'agents', 'files', 'graphql'].map((name) => [name, { url: upstream.url, headBytes: 20_000 }]),
  )
  const audience = 'sallyport-demo'
  const hanging: ServerResponse[] = []
  let isFree = false
  const pdp = await startPdp(t, ({ resource: { id } }) => {
    isFree ||= id === 'free'
    if (isFree) for (const response of hanging.splice(0)) response.destroy()
    if (id.startsWith('hangs') && !isFree) return (response) => void hanging.push(response)
    return id === 'no' ? false : id
  })
  const decisionPoints = {
    pdp: { url: pdp.url, deadlineMs: 60_000 },
    absent: { url: nowhere },
    single: { url: pdp.url, deadlineMs: 60_000, maxInFlightPerOrganization: 1 },
  }
  const trusted = {
    issuer: world.oidc.issuer,
    audience,
    tokens: { header: true, cookie: credentialCookie, subprotocol: true },
  }
  const keyed = {
    issuer,
    audience,
    jwksUri: `${issuer}/keys`,
    clockToleranceSeconds: 0,
    logout: { audience, heardElsewhere: true },
  }
  const teamRule = { claim: '/teams', matches: '{organization}', role: 'org-member' }
  const directoryRules = [{ claim: '/groups', matches: '/{organization}/{role}' }, ...Array(41).fill(teamRule)]
  const start = async (name: string, { settings, ...options }: ServeOptions): Promise<CauseGateway> => {
    const auditFile = join(folder, `${name}.jsonl`)
    const serving = await startServing(t, {
      ...options,
      settings: {
        policies: { directory: policies },
        decisionPoints,
        upstreams: { ...upstreams, data: { url: nowhere } },
        audit: { sink: auditFile },
        cluster: { networks: { allow: ['127.0.0.0/8'] } },
        issuers: [trusted, keyed],
        ...settings,
      },
    })
    return { ...serving, auditFile }
  }
  const readOnly = new URL(world.databaseUrl)
  readOnly.searchParams.set('options', '-c default_transaction_read_only=on')
  const held = Array.from({ length: 48 }, (_, index) => `http://127.0.0.${index + 1}:${silence}`)
  const [main, dark, full, narrow, claims] = await Promise.all([
    start('main', {
      world,
      settings: {
        database: { url: world.databaseUrl, queryTimeoutMs: floodMs },
        directory: { kind: 'both' },
        issuers: [trusted, { ...keyed, directoryRules }],
      },
    }),
    // Neither database nor Redis nor issuer.
    start('dark', {
      preload: [plantedBug, longLastSecond].join('\n'),
      settings: {
        redis: { url: 'redis://127.0.0.1:1' },
        issuers: [{ issuer: nowhere, audience, required: false }],
        drain: { delayMs: 0, timeoutMs: 100 },
      },
    }),
    start('full', { world, settings: { audit: { sink: '/dev/full', onFull: 'wait', waitMs: 200 } } }),
    // The health checks take all connections to upstreams that the descriptors allow.
    start('narrow', {
      world: { ...world, databaseUrl: readOnly.href },
      descriptors: 192,
      settings: {
        authentication: { unknownTokens: { perSecond: 0.01, burst: 1 } },
        issuers: [
          { issuer: world.oidc.issuer, audience },
          { issuer, audience, jwksUri: `${issuer}/keys`, tokens: { header: false, bearer: true } },
        ],
        upstreams: {
          ...upstreams,
          data: { urls: held, health: { path: '/', intervalMs: 1, timeoutMs: 600_000 } },
        },
      },
    }),
    start('claims', {
      settings: {
        database: undefined,
        directory: { kind: 'claims' },
        limits: { waitingPerOrganization: 1 },
        issuers: [
          {
            issuer,
            audience,
            jwksUri: `${issuer}/keys`,
            directoryRules,
            introspection: { endpoint: `${issuer}/introspect`, clientId: 'us', clientSecret: 'canary-of-the-claims' },
          },
        ],
      },
    }),
  ])
  return {
    upstreamIds: upstream.ids,
    moveRoute: () => writeRoutes('files'),
    gateways: { main, dark, full, narrow, claims },
  }
}
