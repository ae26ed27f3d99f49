import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { World } from '../../../demo/world.ts'
import { type Authority, ownNames } from '../certificates.ts'
import type { Owner } from '../owner.ts'
import { type Replica, startReplica } from '../replicas.ts'
import type { DatabasePatience } from '../world.ts'
import type { BackendFigures, BackendOrder } from './backend.ts'
import type { Caller } from './client.ts'

export type TaggedBackend = Readonly<{ ports: readonly number[]; figures: () => Promise<BackendFigures> }>

/** Starts a backend in a process of its own, which listens on so many ports: each is an origin. */
export async function startTaggedBackend(owner: Owner, order: BackendOrder): Promise<TaggedBackend> {
  const child = fork(fileURLToPath(new URL('backend.ts', import.meta.url)))
  owner.teardown(() => child.kill('SIGKILL'))
  const ask = async (message: BackendOrder | 'figures'): Promise<unknown> => {
    const answered = once(child, 'message')
    child.send(message)
    const [answer] = await answered
    return answer
  }
  const ports = (await ask(order)) as readonly number[]
  return { ports, figures: async () => (await ask('figures')) as BackendFigures }
}

export type Described = Pick<
  World['description'],
  'databaseUrl' | 'oidc' | 'users' | 'serviceAccounts' | 'organizations'
> & {
  patience?: DatabasePatience
}

/** People and a machine of two organizations; one of them belongs to both. */
export function callersOf({
  users,
  serviceAccounts,
  organizations,
}: Described): readonly [Caller, Caller, ...Caller[]] {
  const session = (user: keyof Described['users'], organization: keyof Described['organizations']): Caller => ({
    organization,
    name: user,
    headers: {
      'x-oauth-access-token': users[user].jwt,
      'x-organization-id': String(organizations[organization].id),
    },
  })
  return [
    session('owner', 'acme'),
    session('outsider', 'globex'),
    session('member', 'acme'),
    session('owner', 'globex'),
    session('admin', 'acme'),
    session('outsider', 'globex'),
    { organization: 'acme', name: 'robot', headers: { authorization: `Bearer ${serviceAccounts.robot.apiKey}` } },
  ]
}

const clusterRoute = {
  id: 'clusters',
  match: { path: '/clusters/:clusterId/proxy/*' },
  surface: 'platform',
  cluster: { param: 'clusterId' },
}

export type TaggedFixture = Readonly<{
  replica: Replica
  backend: TaggedBackend
  /** The beginning of the path that leads to each origin. */
  places: readonly string[]
}>

export type TaggedFixtureOptions = Readonly<{
  world: Described
  origins: number
  workers: number
  /** Issues the backend's certificate; without one it speaks plain HTTP. */
  authority?: Authority
  /** Settings of each upstream. */
  upstream?: Readonly<Record<string, unknown>>
}>

/**
 * A gateway with one backend of many origins, each an upstream that all organizations share. An origin that was seen to send
 * a surplus is not reused for a while, and one alone would try a defence only once.
 */
export async function startTaggedFixture(owner: Owner, options: TaggedFixtureOptions): Promise<TaggedFixture> {
  const { world, origins, workers, authority, upstream } = options
  const certificate = authority?.issue(ownNames)
  const backend = await startTaggedBackend(owner, {
    origins,
    ...(certificate && { cert: certificate.cert, key: certificate.key }),
  })
  const tls = authority && { ca: `file:${authority.certFile}` }
  const places = backend.ports.map((_, index) => `o${index}`)
  const upstreams = backend.ports.map((port, index) => [
    `o${index}`,
    { url: `${authority ? 'https' : 'http'}://127.0.0.1:${port}`, ...(tls && { tls }), ...upstream },
  ])
  const replica = await startReplica(owner, {
    world,
    upstreams: Object.fromEntries(upstreams),
    routes: [
      ...places.map((place) => ({ id: place, match: { path: `/${place}/*` }, surface: 'platform', upstream: place })),
      clusterRoute,
    ],
    settings: {
      workers,
      log: { level: 'error' },
      // Cached rights are looked up now and then, late on a busy machine.
      database: { url: world.databaseUrl, connectTimeoutMs: 20_000, queryTimeoutMs: 20_000 },
    },
  })
  return { replica, backend, places }
}
