// The cost of a thousand slow clients for all others, by a real attacker: `npm run bench:slow-clients -- --help`.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { Command, InvalidArgumentError } from 'commander'
import { Pool } from 'undici'
import { openCrowd } from '../test/support/crowd.ts'
import { startCrowdUpstream } from '../test/support/crowd-upstream.ts'
import { deltaEvent } from '../test/support/event-streams.ts'
import { type Owner, withOwner } from '../test/support/owner.ts'
import { readLoad } from '../test/support/process-figures.ts'
import { startReplica } from '../test/support/replicas.ts'
import { modelRoutes, toChunk } from '../test/support/streams.ts'
import { bearer } from '../test/support/world.ts'
import { type Attacked, attack, attackFor, attacks, setAside } from './slow-attack.ts'
import { startBenchWorld } from './start-bench.ts'
import { findPercentile, renderTable } from './statistics.ts'

type Options = Readonly<{ connections: number }>

/** The effect of one attack. */
type Figures = Attacked &
  Readonly<{
    name: string
    p99QuietMs: number
    /** While the same attack goes against another server of the machine. */
    p99BesideMs: number
    p99Ms: number
    failed: number
    streamsLeft: number
  }>

const { connections } = new Command('bench:slow-clients')
  .description('Attack a gateway by slowhttptest: slow heads, slow bodies, slow reading, with the default limits.')
  .option('--connections <n>', 'connections of the attacker', parseCount, 1_000)
  .addHelpText('after', '\nExits 1 where a request fails, a stream is cut, an attacker stands for more than 31 s,')
  .addHelpText('after', 'or the 99th percentile of other clients is twice that which they have')
  .addHelpText('after', 'while the same attack goes against another server of this machine.')
  .addHelpText('after', '\nExample:\n  $ npm run --silent bench:slow-clients -- --connections 200')
  .showHelpAfterError('(add --help for usage and an example)')
  // Commander's exit code for bad usage is 1; every program here ends with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Options>()

const streams = 50
const askers = 8
const warmUpMs = 10_000

/** Until the last of them was cut. */
const fewAttacksMs = 35_000

/**
 * Linux sizes a connection's bytes on their way by its packets, ten of them at first. With the loopback's 64 KiB that
 * is 2.5 MiB for each reader that stands still. A thousand of them exceed all of TCP's memory. On a network it is fifty
 * times less.
 */
const largePackets = `loopback has packets of 64 KiB, which no network has: slow readers then fill the system's memory for TCP.
As root, with packets as elsewhere: unshare -n sh -c 'ip link set lo up mtu 1500 && npm run bench:slow-clients'`

/** The attacker needs no credential: with one that is asked for, it is refused before it can be slow. */
const routes = [
  ...modelRoutes,
  { id: 'large', match: { path: '/large' }, surface: 'platform', access: 'public', upstream: 'files' },
  {
    id: 'datasets',
    match: { path: '/datasets' },
    surface: 'platform',
    upstream: 'platform',
    require: { role: 'org-member', ability: 'datasets:read' },
  },
]

try {
  if (availableParallelism() < 2) throw new Error('it takes two processors, one of which attackers leave alone')
  const figures = await withOwner(measure)
  console.log(renderFigures(figures))
  process.exitCode = figures.every(isKept) ? 0 : 1
} catch (error) {
  console.error(`bench:slow-clients: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}

async function measure(owner: Owner): Promise<readonly Figures[]> {
  if (readLoopbackMtu() > 9_000) console.error(largePackets)
  console.error('starting a database and a gateway')
  const world = await startBenchWorld(owner)
  const platform = await startUpstream(owner)
  // The upstream's work counts as another machine's.
  const files = await startUpstream(owner)
  setAside(files.pid)
  const decoy = await startUpstream(owner)
  setAside(decoy.pid)
  const agents = await startCrowdUpstream(owner)
  const upstreams = { platform: { url: platform.url }, files: { url: files.url }, agents: { url: agents.url } }
  const settings = { log: { level: 'warn' } }
  const gateway = await startReplica(owner, { world, settings, upstreams, routes })
  const counter = forkScript('tell-descriptors.ts', [String(gateway.pid)])
  owner.teardown(() => counter.kill())
  setAside(counter.pid)
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
  await warmUp(ask, gateway.public)
  const all: Figures[] = []
  for (const [name, options] of attacks) {
    console.error(`${name}: ${connections} connections`)
    const quiet = await watch(ask, sleep(20_000))
    // The attack itself takes time of a machine that has two processors, whatever its target.
    const beside = await watch(ask, attackFor(30_000, { origin: decoy.url, options, connections }))
    let attacked: Attacked = { most: 0, cutAfterMs: 0 }
    const during = await watch(
      ask,
      attack({ origin: gateway.public, options, connections }, counter).then((told) => {
        attacked = told
      }),
    )
    all.push({
      name,
      p99QuietMs: quiet.p99Ms,
      p99BesideMs: beside.p99Ms,
      p99Ms: during.p99Ms,
      failed: quiet.failed + beside.failed + during.failed,
      ...attacked,
      streamsLeft: agents.streams.size,
    })
    console.error(`the machine's load was ${readLoad()}`)
  }
  return all
}

/**
 * A gateway in use has compiled its code, and has some slow clients at any time. So a tenth of each attack comes first,
 * and its compilation is not measured.
 */
async function warmUp(ask: () => Promise<boolean>, origin: string): Promise<void> {
  const untilMs = performance.now() + warmUpMs
  const work = async (): Promise<void> => {
    while (performance.now() < untilMs) await ask()
  }
  const few = Math.ceil(connections / 10)
  await Promise.all([
    ...attacks.map(([, options]) => attackFor(fewAttacksMs, { origin, options, connections: few })),
    ...Array.from({ length: askers }, work),
  ])
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

async function startUpstream(owner: Owner): Promise<Readonly<{ url: string; pid: number | undefined }>> {
  const child = forkScript('slow-upstream.ts')
  owner.teardown(() => child.kill())
  const [port] = await once(child, 'message')
  return { url: `http://127.0.0.1:${port}`, pid: child.pid }
}

function forkScript(name: string, options: readonly string[] = []): ChildProcess {
  const loader = `--import=${new URL('typescript.js', import.meta.url)}`
  return fork(fileURLToPath(new URL(name, import.meta.url)), options, { execArgv: [loader] })
}

function readLoopbackMtu(): number {
  try {
    // The size of the own network's packets, where /sys shows the machine's.
    return Number(readFileSync('/proc/sys/net/ipv6/conf/lo/mtu', 'utf8'))
  } catch {
    return 0
  }
}

/** The promise. A second is allowed for node's check of late heads and the gateway's count. */
function isKept({ p99Ms, p99BesideMs, failed, cutAfterMs, streamsLeft }: Figures): boolean {
  return p99Ms < 2 * p99BesideMs && failed === 0 && cutAfterMs <= 31_000 && streamsLeft === streams
}

function renderFigures(all: readonly Figures[]): string {
  const head = [
    'attack',
    'p99 quiet ms',
    'p99 beside ms',
    'p99 ms',
    'failed',
    'descriptors',
    'cut after s',
    'streams left',
  ]
  const rows = all.map(({ name, p99QuietMs, p99BesideMs, p99Ms, failed, most, cutAfterMs, streamsLeft }) => [
    name,
    p99QuietMs.toFixed(1),
    p99BesideMs.toFixed(1),
    p99Ms.toFixed(1),
    String(failed),
    String(most),
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
