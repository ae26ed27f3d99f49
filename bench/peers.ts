// The cost of a request through the gateway and through other programs, in one run: `npm run bench -- --help`.
import { createPublicKey, type JsonWebKey } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { Command, InvalidArgumentError } from 'commander'
import type { World } from '../demo/world.ts'
import { writeConfiguration } from '../test/support/gateway.ts'
import { type Owner, withOwner } from '../test/support/owner.ts'
import { readLoad } from '../test/support/process-figures.ts'
import { oauth } from '../test/support/world.ts'
import { apacheOidc } from './peers/apache.ts'
import { caddyForwardAuth } from './peers/caddy.ts'
import { type Contestant, compete, type Row } from './peers/contest.ts'
import { envoyExtAuthz, envoyJwt } from './peers/envoy.ts'
import { findLack } from './peers/find-program.ts'
import { haproxyJwt } from './peers/haproxy.ts'
import { heimdallJwt } from './peers/heimdall.ts'
import { keepAwake } from './peers/keep-awake.ts'
import type { Asked } from './peers/load.ts'
import { nginxAuthRequest, nginxBare, startBackend } from './peers/nginx.ts'
import { nodeProxies } from './peers/node-proxies.ts'
import { enter, manyTokens, mintMany, newTokens, startAllOurs, startOurs } from './peers/ours.ts'
import type { Peer, Surroundings, Way } from './peers/peer.ts'
import { plot } from './peers/plot.ts'
import { computeRatios, type Ratio } from './peers/ratios.ts'
import { traefikForwardAuth } from './peers/traefik.ts'
import { startBenchWorld } from './start-bench.ts'
import { renderTable } from './statistics.ts'

type Options = Readonly<{
  rounds: number
  seconds: number
  connections: number
  rate: number
  only?: RegExp
  out: string
  plot?: string
  strict?: boolean
}>

const options = new Command('bench')
  .description('Measure the processor time of a request and the added latency of the gateway and its peers, in turns.')
  .option('--rounds <n>', 'rounds; every other one runs backwards', parseCount, 12)
  .option('--seconds <n>', 'seconds of load for each row in each round', parseCount, 2)
  .option('--connections <n>', 'connections of the load', parseCount, 64)
  .option('--rate <n>', 'requests a second while latencies are measured; 0 leaves latencies out', parseRate, 3_000)
  .option('--only <pattern>', 'rows whose names match, such as "sallyport|nginx"', parsePattern)
  .option('--out <file>', 'file for the figures', 'bench.json')
  .option('--plot <file>', 'file for an SVG of the figures')
  .option('--strict', 'exit 1 where a ratio is above its limit')
  .addHelpText(
    'after',
    '\nProcessor 0 runs the measured programs, 1 the load and the backend. A program that is not installed is',
  )
  .addHelpText(
    'after',
    'left out and named; node scripts/install-tools.js bench and install-tools.js proxies bring most of it.',
  )
  .addHelpText('after', 'All rows take some twenty minutes. BENCH_NODE names another Node than the image has.')
  .addHelpText('after', '\nExample:\n  $ npm run --silent bench -- --rounds 2 --only "^(sallyport|nginx)"')
  .showHelpAfterError('(add --help for usage and an example)')
  // Commander's exit code for bad usage is 1; every program here ends with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Options>()

const notify = (sentence: string): void => console.error(sentence)

const isWanted = (name: string): boolean => options.only === undefined || options.only.test(name)

const peers: readonly Peer[] = [
  nginxBare,
  haproxyJwt,
  apacheOidc,
  envoyJwt,
  envoyExtAuthz,
  nginxAuthRequest,
  caddyForwardAuth,
  traefikForwardAuth,
  heimdallJwt,
  ...nodeProxies,
]

try {
  const lack = findLack('wrk', 'Debian: apt-get install wrk') ?? findLack('taskset', 'Debian: util-linux')
  if (lack !== undefined) throw new Error(lack)
  const rows = await withOwner(measure)
  const ratios = computeRatios(rows)
  const byName = Object.fromEntries(ratios.map(({ name, value }) => [name, value]))
  writeFileSync(options.out, `${JSON.stringify({ rows, ratios: byName }, null, 2)}\n`)
  if (options.plot !== undefined) writeFileSync(options.plot, plot(rows))
  console.log(`${renderRows(rows)}\n\n${renderRatios(ratios)}\n\nload of the machine at the end: ${readLoad()}`)
  process.exitCode = options.strict && ratios.some(({ value, limit }) => value > limit) ? 1 : 0
} catch (error) {
  console.error(`bench: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}

async function measure(owner: Owner): Promise<readonly Row[]> {
  notify(keepAwake(owner))
  notify('starting a database, a backend and the ways to it')
  const world = await startBenchWorld(owner)
  const backendPort = await startBackend(owner)
  const surroundings = await surround(owner, world, backendPort)
  const one = [oauth(world.users.member)]
  const standing: Contestant[] = []
  const add = (way: Way, name: string, path: string, headers: Asked['headers']): void => {
    if (isWanted(name)) standing.push(enter(way, name, path, headers))
  }
  for (const peer of peers.filter(({ name }) => isWanted(name))) {
    const lack = peer.lack()
    if (lack !== undefined) notify(`left out: ${peer.name}: ${lack}`)
    else {
      const way = await peer.start(owner, surroundings)
      add(way, peer.name, '/datasets', way.takesBearer ? one.map(toBearer) : one)
      if (peer === nginxBare) add(way, `${peer.name}, 64 KiB`, '/datasets?large=1', one)
    }
  }
  const fortioLack = findLack('fortio', 'node scripts/install-tools.js bench')
  if (fortioLack !== undefined) notify(`left out: latencies: ${fortioLack}`)
  const manyWanted = [manyTokens, newTokens].some(isWanted)
  const many = manyWanted ? await mintMany(world, 2_000) : []
  return compete(
    owner,
    { standing, start: (ofThese) => startAllOurs(ofThese, world, backendPort, many, isWanted) },
    {
      ...options,
      rate: fortioLack === undefined ? options.rate : 0,
      direct: { url: `http://127.0.0.1:${backendPort}/datasets`, headers: one },
      notify,
    },
  )
}

async function surround(owner: Owner, world: World['description'], backendPort: number): Promise<Surroundings> {
  const { issuer } = world.oidc
  const metadata = (await (await fetch(`${issuer}/.well-known/openid-configuration`)).json()) as { jwks_uri: string }
  const jwks = await (await fetch(metadata.jwks_uri)).text()
  const [key] = (JSON.parse(jwks) as { keys: readonly (JsonWebKey & { kid: string })[] }).keys
  if (!key) throw new Error('the issuer has no key')
  const publicPem = String(createPublicKey({ key, format: 'jwk' }).export({ type: 'spki', format: 'pem' }))
  const upstreams = { platform: { url: `http://127.0.0.1:${backendPort}` } }
  return {
    backendPort,
    gateway: await startOurs(owner, world, backendPort),
    issuer: { url: issuer, jwksUrl: metadata.jwks_uri, jwks, keyId: key.kid, publicPem, audience: world.oidc.audience },
    configurationFile: writeConfiguration(owner, { world, settings: { log: { level: 'info' } }, upstreams }),
  }
}

function toBearer(headers: Readonly<Record<string, string>>): Record<string, string> {
  return { authorization: `Bearer ${headers['x-oauth-access-token']}` }
}

function renderRows(rows: readonly Row[]): string {
  const head = ['', 'CPU µs/request', 'quartiles', 'requests/core', 'p50 added µs', 'p99 added µs']
  const lines = rows.map(({ name, cpuMicrosPerRequest, cpuMicrosQuartiles, requestsPerCore, p50Micros, p99Micros }) => [
    name,
    cpuMicrosPerRequest.toFixed(1),
    cpuMicrosQuartiles.map((micros) => micros.toFixed(1)).join(' to '),
    String(requestsPerCore),
    p50Micros?.toFixed(0) ?? '-',
    p99Micros?.toFixed(0) ?? '-',
  ])
  return renderTable([head, ...lines])
}

function renderRatios(ratios: readonly Ratio[]): string {
  const lines = ratios.map(({ name, value, limit, aim }) => [
    name,
    value.toFixed(2),
    `<= ${limit}`,
    `aim ${aim}`,
    value <= limit ? 'kept' : 'missed',
  ])
  return renderTable([['ratio', 'value', 'limit', 'aim', ''], ...lines])
}

function parseCount(value: string): number {
  const count = Number(value)
  if (!Number.isInteger(count) || count < 1) throw new InvalidArgumentError('It must be a whole number above 0.')
  return count
}

function parseRate(value: string): number {
  const rate = Number(value)
  if (!Number.isInteger(rate) || rate < 0) throw new InvalidArgumentError('It must be a whole number.')
  return rate
}

function parsePattern(value: string): RegExp {
  try {
    return new RegExp(value)
  } catch {
    throw new InvalidArgumentError('It must be a regular expression.')
  }
}
