// The memory that a crowd can make a gateway hold: `npm run bench:held -- --help`.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Command, InvalidArgumentError, Option } from 'commander'
import { createAuthority, ownNames } from '../test/support/certificates.ts'
import { openRoute } from '../test/support/gateway.ts'
import { type Owner, withOwner } from '../test/support/owner.ts'
import { findMeasureLack, readLoad, readRss } from '../test/support/process-figures.ts'
import { type Replica, startReplica } from '../test/support/replicas.ts'
import type { CrowdOrders } from './held-attacker.ts'
import { heldScenes } from './held-scenes.ts'
import { renderTable } from './statistics.ts'

type Options = Readonly<{ connections: number; scene: string; tls?: true; seconds: number; heldBytes: number }>

const options = new Command('bench:held')
  .description('Fill the memory that a gateway holds for slow peers, over many connections, and measure it.')
  .option(
    '--connections <n>',
    'number of connections, 90 % of the largest number that the listener takes',
    parseCount,
    9_000,
  )
  .addOption(
    new Option('--scene <name>', 'behavior of the connections').choices(Object.keys(heldScenes)).default('ahead'),
  )
  .option('--tls', 'use TLS')
  .option('--seconds <n>', 'seconds of the measurement', parseCount, 10)
  .option(
    '--held-bytes <n>',
    'budget of the gateway; by default that of a container of 512 MiB',
    parseCount,
    64 * 1024 * 1024,
  )
  .addHelpText('after', '\nExample:\n  $ npm run --silent bench:held -- --scene bodies --connections 2000')
  .showHelpAfterError('(add --help for usage and an example)')
  // Commander's exit code for bad usage is 1; every program here ends with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Options>()

try {
  const lack = findMeasureLack(2 * options.connections)
  if (lack !== undefined) throw new Error(lack)
  console.log(await withOwner(measure))
} catch (error) {
  console.error(`bench:held: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}

async function measure(owner: Owner): Promise<string> {
  const scene = heldScenes[options.scene]
  if (!scene) throw new Error('there is no such scene')
  const upstream = forkScript(owner, 'held-upstream.ts', [scene.upstream])
  const [port] = await once(upstream, 'message')
  const gateway = await startGateway(owner, port)
  const restBytes = readRss(gateway.pid)
  const { hostname: host, port: publicPort } = new URL(gateway.public)
  const orders: CrowdOrders = {
    host,
    port: Number(publicPort),
    isSecure: options.tls === true,
    connections: options.connections,
    ...scene,
  }
  const crowd = forkScript(owner, 'held-attacker.ts', [JSON.stringify(orders)])
  let mostBytes = restBytes
  const look = setInterval(() => {
    mostBytes = Math.max(mostBytes, readRss(gateway.pid))
  }, 100)
  owner.teardown(() => clearInterval(look))
  await once(crowd, 'message')
  await new Promise((resolve) => setTimeout(resolve, options.seconds * 1_000))
  const startedMs = performance.now()
  const held = await readMetric(gateway, 'sallyport_held_bytes')
  const tookMs = performance.now() - startedMs
  const cut = await readMetric(gateway, 'sallyport_connections_dropped_total{listener="public",reason="memory"}')
  const connections = `${options.connections}${options.tls ? ' on TLS' : ''}`
  return renderTable([
    ['scene', 'connections', 'rest MiB', 'most MiB', 'now MiB', 'held MiB', 'cut', 'admin ms', 'load'],
    [
      options.scene,
      connections,
      toMebibytes(restBytes),
      toMebibytes(mostBytes),
      toMebibytes(readRss(gateway.pid)),
      toMebibytes(held),
      String(cut),
      tookMs.toFixed(0),
      String(readLoad()),
    ],
  ])
}

function startGateway(owner: Owner, upstreamPort: number): Promise<Replica> {
  const issued = options.tls ? createAuthority(owner).issue(ownNames) : undefined
  const tls = issued && { tls: { cert: `file:${issued.certFile}`, key: `file:${issued.keyFile}` } }
  const address = { host: '127.0.0.1', port: 0 }
  return startReplica(owner, {
    settings: {
      listeners: {
        public: { ...address, maxConnections: Math.ceil(options.connections / 0.9), ...tls },
        decision: { ...address, maxConnections: 10 },
        admin: address,
      },
      limits: { heldBytes: options.heldBytes },
      log: { level: 'error' },
    },
    upstreams: { platform: { url: `http://127.0.0.1:${upstreamPort}` } },
    routes: [openRoute],
  })
}

async function readMetric({ admin }: Replica, name: string): Promise<number> {
  const text = await (await fetch(`${admin}/metrics`)).text()
  const line = text.split('\n').find((line) => line.startsWith(`${name} `))
  return Number(line?.split(' ')[1] ?? 0)
}

function forkScript(owner: Owner, name: string, args: readonly string[]): ChildProcess {
  const loader = `--import=${new URL('typescript.js', import.meta.url)}`
  const child = fork(fileURLToPath(new URL(name, import.meta.url)), args, { execArgv: [loader] })
  owner.teardown(() => child.kill())
  return child
}

function toMebibytes(bytes: number): string {
  return (bytes / 1024 / 1024).toFixed(0)
}

function parseCount(text: string): number {
  if (!/^[1-9]\d{0,9}$/.test(text)) throw new InvalidArgumentError('not a number from 1')
  return Number(text)
}
