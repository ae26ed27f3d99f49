// The gateway in all the ways in which it competes.
import { execFileSync } from 'node:child_process'
import type { World } from '../../demo/world.ts'
import type { Owner } from '../../test/support/owner.ts'
import { type Replica, startReplica } from '../../test/support/replicas.ts'
import { oauth } from '../../test/support/world.ts'
import type { Contestant } from './contest.ts'
import { listTree } from './cpu-time.ts'
import type { Asked } from './load.ts'
import { measuredCore, type Way } from './peer.ts'

/** The rows that take many tokens. */
export const manyTokens = 'sallyport, 2,000 tokens'
export const newTokens = 'sallyport, every token new'

export const enter = ({ port, pids }: Way, name: string, path: string, headers: Asked['headers']): Contestant => ({
  name,
  entry: { asked: { url: `http://127.0.0.1:${port}${path}`, headers }, pids },
})

/** The gateway with the shipped table, what changes with tokens and bodies, and a short policy table beside a long one. */
export async function startAllOurs(
  owner: Owner,
  world: World['description'],
  backendPort: number,
  many: Asked['headers'],
  isWanted: (name: string) => boolean,
): Promise<readonly Contestant[]> {
  const one = [oauth(world.users.member)]
  const contestants: Contestant[] = []
  const start = async (options: OurOptions = {}): Promise<Way> => {
    const { public: url, pid } = await startOurs(owner, world, backendPort, options)
    return { name: 'sallyport', port: Number(new URL(url).port), pids: [pid] }
  }
  const add = async (options: OurOptions, name: string, path: string, headers = one): Promise<void> => {
    if (isWanted(name)) contestants.push(enter(await start(options), name, path, headers))
  }
  const shared = await start()
  for (const [name, path, headers] of [
    ['sallyport', '/datasets', one],
    ['sallyport, 64 KiB', '/datasets?large=1', one],
    [manyTokens, '/datasets', many],
  ] as const)
    if (isWanted(name)) contestants.push(enter(shared, name, path, headers))
  await add({ settings: { workers: 2 } }, 'sallyport, 2 workers', '/datasets')
  // A cache that holds half of what is asked in turn never has what comes next.
  await add({ settings: { cache: { maxEntries: 1_000 } } }, newTokens, '/datasets', [...many])
  for (const count of [10, 1_000, 10_000]) {
    const routes = makeRoutes(count)
    await add({ routes }, `sallyport, ${count.toLocaleString('en')} routes`, `/bench/${count - 1}/items/7`)
  }
  return contestants
}

/** Half of them with parameters; requests go to the final one. */
export function makeRoutes(count: number): readonly Readonly<Record<string, unknown>>[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `bench.${index}`,
    match: { path: index % 2 === 0 ? `/bench/${index}/items` : `/bench/${index}/items/:id`, methods: ['GET'] },
    surface: 'platform',
    require: { role: 'org-member' },
    upstream: 'platform',
  }))
}

type OurOptions = Readonly<{ settings?: object; routes?: readonly Readonly<Record<string, unknown>>[] }>

export async function startOurs(
  owner: Owner,
  world: World['description'],
  backendPort: number,
  { settings = {}, routes }: OurOptions = {},
): Promise<Replica> {
  const upstreams = { platform: { url: `http://127.0.0.1:${backendPort}` } }
  const replica = await startReplica(owner, { world, settings: { ...settings }, upstreams, ...(routes && { routes }) })
  for (const pid of listTree(replica.pid))
    execFileSync('taskset', ['-a', '-p', '-c', measuredCore, String(pid)], { stdio: 'ignore' })
  return replica
}

/** Tokens of one user, each signed by itself. */
export async function mintMany({ oidc, users }: World['description'], count: number) {
  const { sub } = JSON.parse(Buffer.from(users.member.jwt.split('.')[1] ?? '', 'base64url').toString()) as {
    sub: string
  }
  const mint = async (number: number) => {
    const body = JSON.stringify({ sub, claims: { jti: `bench-${number}` } })
    return (await (await fetch(oidc.mintUrl, { method: 'POST', body })).json()) as { jwt: string }
  }
  const minted: { jwt: string }[] = []
  for (let index = 0; index < count; index += 1) minted.push(await mint(index))
  return minted.map(oauth)
}
