// What a thousand slow clients cost everybody else, by a real attacker: `npm run bench:slow-clients -- --help`.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Command, InvalidArgumentError } from 'commander'
import { Pool } from 'undici'
import { openCrowd } from '../support/crowd.ts'
import { startCrowdUpstream } from '../support/crowd-upstream.ts'
import { deltaEvent } from '../support/event-streams.ts'
import { type Owner, withOwner } from '../support/owner.ts'
import { readLoad } from '../support/process-figures.ts'
import { type Replica, startReplica } from '../support/replicas.ts'
import { modelRoutes, toChunk } from '../support/streams.ts'
import { bearer } from '../support/world.ts'
import { startBenchWorld } from './start-bench.ts'
import { findPercentile, renderTable } from './statistics.ts'

type Options = Readonly<{ connections: number }>

/** What one attack did. */
type Figures = Readonly<{
  name: string
  p99Ms: number
  p99BeforeMs: number
  failed: number
  /** From the last connection of the attacker to the end of them all. */
  cutAfterMs: number
  streamsLeft: number
}>

const { connections } = new Command('bench:slow-clients')
  .description('Attacks a gateway by slowhttptest: slow heads, slow bodies, slow reading, with the default limits.')
  .option('--connections <n>', 'of the attacker', parseCount, 1_000)
  .addHelpText('after', '\nExits 1 where a request fails, a stream is cut, an attacker stands for more than 31 s,')
  .addHelpText('after', 'or the 99th percentile of the others is twice what it was before.')
  .addHelpText('after', '\nExample:\n  $ npm run --silent bench:slow-clients -- --connections 200')
  .showHelpAfterError('(add --help for usage and an example)')
  // Commander exits 1 on bad usage by itself; ours is 2 everywhere.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Options>()

/** New connections of the attacker in a second. */
const rate = 250

const streams = 50
const askers = 8

/** As its manual names them; the reader takes 32 bytes in five seconds. */
const attacks = [
  ['slow heads', ['-H', '-i', '5', '-x', '24']],
  ['slow bodies', ['-B', '-i', '5', '-x', '24', '-s', '8192', '-t', 'POST']],
  ['slow readers', ['-X', '-n', '5', '-z', '32', '-w', '512', '-y', '1024']],
] as const

/** The attacker needs no credential: with one that is asked for, it is refused before it can be slow. */
const routes = [
  ...modelRoutes,
  { id: 'large', match: { path: '/large' }, surface: 'platform', access: 'public', upstream: 'platform' },
  {
    id: 'datasets',
    match: { path: '/datasets' },
    surface: 'platform',
    upstream: 'platform',
    require: { role: 'org-member', ability: 'datasets:read' },
  },
]

/** More than the buffers of the system take. */
const large = Buffer.alloc(8 * 1024 * 1024, 'x')

try {
  const figures = await withOwner(measure)
  console.log(renderFigures(figures))
  process.exitCode = figures.every(isKept) ? 0 : 1
} catch (error) {
  console.error(`bench:slow-clients: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}

async function measure(owner: Owner): Promise<readonly Figures[]> {
  console.error('starting a database and a gateway')
  const world = await startBenchWorld(owner)
  const platform = await startPlatform(owner)
  const agents = await startCrowdUpstream(owner)
  const upstreams = { platform: { url: platform }, agents: { url: agents.url } }
  const settings = { log: { level: 'warn' } }
  const gateway = await startReplica(owner, { world, settings, upstreams, routes })
  const headers = bearer(world.serviceAccounts.robot.apiKey)
  await openCrowd(owner, {
    origin: gateway.public,
    path: `/agent/${world.agents.acme}/responses`,
    headers,
    count: streams,
  })
  // As slow as a model that thinks.
  const beat = setInterval(() => {
    for (const socket of agents.streams) socket.write(toChunk(deltaEvent(1)))
  }, 10_000)
  owner.teardown(() => clearInterval(beat))
  const pool = new Pool(gateway.public, { connections: askers })
  owner.teardown(() => pool.destroy())
  const ask = async (): Promise<boolean> => {
    const { statusCode, body } = await pool.request({ method: 'GET', path: '/datasets', headers: { ...headers } })
    await body.dump()
    return statusCode === 200
  }
  const all: Figures[] = []
  for (const [name, options] of attacks) {
    console.error(`${name}: ${connections} connections`)
    const before = await watch(ask, sleep(10_000))
    let cutAfterMs = 0
    const during = await watch(
      ask,
      attack(gateway, options).then((ms) => {
        cutAfterMs = ms
      }),
    )
    const failed = before.failed + during.failed
    const figures = { name, p99Ms: during.p99Ms, p99BeforeMs: before.p99Ms, failed, cutAfterMs }
    all.push({ ...figures, streamsLeft: agents.streams.size })
    console.error(`the machine's load was ${readLoad()}`)
  }
  return all
}

/** Asks a hundred times a second until the work is done; times count from when the request was due. */
async function watch(ask: () => Promise<boolean>, work: Promise<unknown>): Promise<{ p99Ms: number; failed: number }> {
  let isDone = false
  const worked = work.finally(() => {
    isDone = true
  })
  worked.catch(() => undefined) // told below, once nothing is under way any more
  const times: number[] = []
  let failed = 0
  const asked: Promise<void>[] = []
  for (let dueMs = performance.now(); !isDone; dueMs += 10) {
    const startMs = dueMs
    await sleep(Math.max(0, startMs - performance.now()))
    asked.push(
      ask().then(
        (isGood) => {
          times.push(performance.now() - startMs)
          if (!isGood) failed += 1
        },
        () => {
          failed += 1
        },
      ),
    )
  }
  await Promise.all([worked, ...asked])
  return { p99Ms: findPercentile(times, 0.99), failed }
}

/** Resolves to how long its last connection stood: by the gateway's count, since the reader is the last to notice. */
async function attack(gateway: Replica, options: readonly string[]): Promise<number> {
  const common = ['-c', String(connections), '-r', String(rate), '-l', '240', '-u', `${gateway.public}/large`]
  // Attackers have machines of their own: here they get what is left of this one.
  const child = spawn('nice', ['-n', '19', 'slowhttptest', ...options, ...common], { stdio: 'ignore' })
  const ended = once(child, 'close')
  try {
    await untilCount(gateway, (count) => count >= connections)
    const startedMs = performance.now()
    await untilCount(gateway, (count) => count <= streams + askers)
    return performance.now() - startedMs
  } finally {
    child.kill()
    await ended
  }
}

async function untilCount(gateway: Replica, isReached: (count: number) => boolean): Promise<void> {
  const deadlineMs = performance.now() + 120_000
  while (!isReached(await countConnections(gateway))) {
    if (performance.now() > deadlineMs) throw new Error('the attack did not come to what was expected')
    await sleep(200)
  }
}

async function countConnections({ admin }: Replica): Promise<number> {
  const response = await fetch(`${admin}/metrics`)
  const found = /^sallyport_connections_open\{listener="public"\} (\d+)$/m.exec(await response.text())
  return Number(found?.[1])
}

/** Answers `/large` with much, and everything else once its body is whole. */
async function startPlatform(owner: Owner): Promise<string> {
  const server = createServer((request, response) => {
    const isLarge = request.method === 'GET' && request.url?.startsWith('/large')
    request.resume().on('end', () => response.end(isLarge ? large : 'ok'))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  owner.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return `http://127.0.0.1:${port}`
}

/** What we promise; a second is for node's look at late heads, and ours at the count. */
function isKept({ p99Ms, p99BeforeMs, failed, cutAfterMs, streamsLeft }: Figures): boolean {
  return p99Ms < 2 * p99BeforeMs && failed === 0 && cutAfterMs <= 31_000 && streamsLeft === streams
}

function renderFigures(all: readonly Figures[]): string {
  const head = ['attack', 'p99 before ms', 'p99 ms', 'failed', 'cut after s', 'streams left']
  const rows = all.map(({ name, p99BeforeMs, p99Ms, failed, cutAfterMs, streamsLeft }) => [
    name,
    p99BeforeMs.toFixed(1),
    p99Ms.toFixed(1),
    String(failed),
    (cutAfterMs / 1_000).toFixed(1),
    `${streamsLeft}/${streams}`,
  ])
  return renderTable([head, ...rows])
}

function parseCount(text: string): number {
  if (!/^[1-9]\d{0,4}$/.test(text)) throw new InvalidArgumentError('not a number from 1 to 99999')
  return Number(text)
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
