import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runNone } from '../bench/no-gateway.ts'
import type { EmbeddedPostgres } from '../demo/postgres.ts'
import { startWorld, type World } from '../demo/world.ts'
import type { Owner } from '../test/support/owner.ts'
import { countDescriptors, readRss } from '../test/support/process-figures.ts'
import { type RedisServer, startRedisServer } from '../test/support/redis-server.ts'
import { type Replica, startReplica } from '../test/support/replicas.ts'
import { leadThrough, startTcpProxy, type TcpProxy } from '../test/support/tcp-proxy.ts'
import { startTestPostgres } from '../test/support/world.ts'
import type { Drill, GatewayOptions } from './drill.ts'

/** Real programs around one gateway, and a wire to each of them that a drill can stall, cut or close. */
export type DrillFixture = Readonly<{
  owner: Owner
  world: World['description']
  postgres: EmbeddedPostgres
  redis: RedisServer
  upstream: DrillUpstream
  wires: Readonly<Record<'database' | 'redis' | 'issuer' | 'upstream', TcpProxy>>
  /** Started after the drill has prepared. */
  gateway: () => Replica
  /** The gateway and its workers. */
  pids: () => readonly number[]
  /** A folder that goes with the fixture. */
  directory: string
  /** Values that a drill keeps from one of its steps to another. */
  notes: Map<string, unknown>
  metric: (name: string) => Promise<number>
}>

/** An upstream whose way of answering may be changed. */
export type DrillUpstream = Readonly<{
  url: string
  /** The `x-request-id` of all that reached it. */
  reached: () => readonly string[]
  answer: (how: (response: ServerResponse) => void) => void
}>

const answerWell = (response: ServerResponse): void => void response.end('ok')

/** Starts everything but the gateway; `prepared` tells what it is started with. */
export async function openDrillFixture(
  owner: Owner,
  drill: Drill,
  notify: (sentence: string) => void,
): Promise<DrillFixture> {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-drill-'))
  owner.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const notes: DrillFixture['notes'] = new Map()
  const { startDatabase, hasPeer } = drill
  const world = await startWorld({
    directory,
    ports: { public: 0, decision: 0, admin: 0 },
    notify,
    startDatabase: () =>
      startDatabase ? startDatabase(owner, notes) : startTestPostgres({ onUnexpectedExit: (text) => notify(text) }),
    ...(!hasPeer && { runGateway: runNone }),
  })
  owner.teardown(world.stop)
  const redis = await startRedisServer(owner)
  const upstream = await startUpstream(owner)
  const { description } = world
  const keys = await readKeysUrl(description.oidc.issuer)
  const wire = (url: string): Promise<TcpProxy> => startTcpProxy(owner, { port: Number(new URL(url).port) })
  const wires = {
    database: await wire(description.databaseUrl),
    redis: await wire(redis.url),
    issuer: await wire(keys),
    upstream: await wire(upstream.url),
  }
  let gateway: Replica | undefined
  const running = (): Replica => {
    if (!gateway) throw new Error('the gateway is not started yet')
    return gateway
  }
  const fixture: DrillFixture = {
    owner,
    directory,
    world: description,
    postgres: world.postgres,
    redis,
    upstream,
    wires,
    gateway: running,
    pids: () => [running().pid, ...listChildren(running().pid)],
    notes,
    metric: async (name) => sumMetric(await (await fetch(`${running().admin}/metrics`)).text(), name),
  }
  const prepared: GatewayOptions = (await drill.prepare?.(fixture)) ?? {}
  const { settings = {}, upstream: section, environment, output, within, domain } = prepared
  const lead = (name: keyof typeof wires, url: string): string => {
    const led = new URL(leadThrough(wires[name], url))
    if (domain !== undefined) led.hostname = `${name}.${domain}`
    return led.href
  }
  const options = {
    world: description,
    upstreams: { platform: section ?? { url: lead('upstream', upstream.url) } },
    settings: {
      database: { url: lead('database', description.databaseUrl) },
      redis: { url: lead('redis', redis.url) },
      issuers: [
        {
          issuer: description.oidc.issuer,
          audience: description.oidc.audience,
          jwksUri: lead('issuer', keys),
        },
      ],
      drain: { delayMs: 0, timeoutMs: 5_000 },
      ...settings,
    },
  }
  gateway = await startReplica(owner, options, environment, output, within)
  return fixture
}

/** Memory and descriptors of the gateway and its workers together. */
export function readHoldings(fixture: DrillFixture): Readonly<{ rssBytes: number; descriptors: number }> {
  const pids = fixture.pids()
  return {
    rssBytes: pids.reduce((sum, pid) => sum + readRssOf(pid), 0),
    descriptors: pids.reduce((sum, pid) => sum + countDescriptorsOf(pid), 0),
  }
}

/** A worker may have just ended. */
const orNone =
  (read: (pid: number) => number) =>
  (pid: number): number => {
    try {
      return read(pid)
    } catch (error) {
      if (!['ENOENT', 'ESRCH'].includes(String((error as NodeJS.ErrnoException).code))) throw error
      return 0
    }
  }
const readRssOf = orNone(readRss)
const countDescriptorsOf = orNone(countDescriptors)

/** The address of an issuer's keys. */
export async function readKeysUrl(issuer: string): Promise<string> {
  const answer = await fetch(`${issuer}/.well-known/openid-configuration`)
  const { jwks_uri } = (await answer.json()) as { jwks_uri: string }
  return jwks_uri
}

async function startUpstream(owner: Owner): Promise<DrillUpstream> {
  const reached: string[] = []
  let answer = answerWell
  const server = createServer((request, response) => {
    reached.push(String(request.headers['x-request-id']))
    response.on('error', () => undefined)
    request.on('error', () => undefined)
    request.resume().on('end', () => answer(response))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  owner.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return {
    url: `http://127.0.0.1:${port}`,
    reached: () => reached,
    answer: (how) => {
      answer = how
    },
  }
}

/** The file of a drill's audit, so that it can be put elsewhere. */
export const auditFile = ({ directory }: DrillFixture): string => join(directory, 'drill-audit.jsonl')

export const resumeAnswers = ({ upstream }: DrillFixture): void => upstream.answer(answerWell)

/** The sum of a metric over all labels. */
const sumMetric = (text: string, name: string): number =>
  [...text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, 'gm'))].reduce(
    (sum, [, value]) => sum + Number(value),
    0,
  )

const listChildren = (parent: number): readonly number[] =>
  readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      const [, ppid] = /\) \S+ (\d+)/.exec(readFileSync(`/proc/${name}/stat`, 'utf8')) ?? []
      return Number(ppid) === parent ? [Number(name)] : []
    } catch {
      return [] // it has just ended
    }
  })
