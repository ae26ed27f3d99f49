import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { packageRoot } from '../gateway/base/lib/package-root.ts'
import { migrate } from '../gateway/directory/postgres/migrate.ts'
import { loadPolicy } from '../gateway/policy/load.ts'
import { generatePem } from '../gateway/tools/cli/keys.ts'
import { startBackends } from './backends/start-backends.ts'
import { describeWorld, type WorldDescription } from './describe-world.ts'
import { type GatewayProcess, spawnGateway } from './gateway-process.ts'
import { type DemoIssuerOptions, startIssuer } from './issuer.ts'
import { type Ports, startOnFreePorts } from './ports.ts'
import { type EmbeddedPostgres, startPostgres } from './postgres.ts'
import { type ClusterUrls, heartbeat, type Population, seed } from './seed.ts'

export type World = Readonly<{
  description: WorldDescription
  postgres: EmbeddedPostgres
  gateway: GatewayProcess
  ended: Promise<number>
  stop: () => Promise<number>
}>

export type WorldOptions = Readonly<{
  directory: string
  ports: Ports
  notify: (sentence: string) => void
  onStep?: (sentence: string) => void
  startDatabase?: () => Promise<EmbeddedPostgres>
  issuerOptions?: Partial<DemoIssuerOptions>
  runGateway?: typeof spawnGateway
  populate?: typeof populate
}>

const audience = 'sallyport-demo'
const heartbeatMs = 10_000

/** Nothing listens on port 1: a request to this cluster shows what an outage looks like. */
const unreachableUrl = 'http://127.0.0.1:1'

export async function startWorld(options: WorldOptions): Promise<World> {
  const stops: (() => Promise<unknown>)[] = []
  try {
    return await build(options, stops)
  } catch (error) {
    await Promise.allSettled(stops.reverse().map((stop) => stop()))
    throw error
  }
}

async function build(options: WorldOptions, stops: (() => Promise<unknown>)[]): Promise<World> {
  const { directory, notify, onStep = () => undefined } = options
  const startEmbedded = () => startPostgres({ onUnexpectedExit: notify, filesToRemove: [join(directory, 'demo.json')] })
  const keep = <Part extends { stop: () => Promise<unknown> }>(part: Part): Part => {
    stops.push(part.stop)
    return part
  }
  onStep('Starting PostgreSQL, an OIDC issuer and backends …')
  const [postgres, issuer, backends] = await Promise.all([
    (options.startDatabase ?? startEmbedded)().then(keep),
    startIssuer({ ...options.issuerOptions, audience }).then(keep),
    startBackends().then(keep),
  ])
  onStep('Creating tables, users and organizations …')
  const population = await (options.populate ?? populate)(postgres.url, issuer.issuer, {
    healthy: backends.urls.clusterHealthy,
    globex: backends.urls.clusterGlobex,
    unreachable: unreachableUrl,
  })
  const signingKey = join(directory, 'demo-identity.pem')
  writeFileSync(signingKey, generatePem('EdDSA'), { mode: 0o600 })
  onStep('Starting the gateway …')
  const startOn = (ports: Ports): Promise<GatewayProcess> =>
    (options.runGateway ?? spawnGateway)(join(directory, 'gateway.log'), {
      DATABASE_URL: postgres.url,
      DEMO_PUBLIC_PORT: String(ports.public),
      DEMO_DECISION_PORT: String(ports.decision),
      DEMO_ADMIN_PORT: String(ports.admin),
      DEMO_ISSUER: issuer.issuer,
      DEMO_SIGNING_KEY: signingKey,
      DEMO_AUDIT: join(directory, 'audit.jsonl'),
      DEMO_PLATFORM_URL: backends.urls.platform,
      DEMO_AGENT_URL: backends.urls.agent,
      DEMO_FILES_URL: backends.urls.files,
      DEMO_GRAPHQL_URL: backends.urls.graphql,
      DEMO_DATA_URL: backends.urls.data,
    })
  const gateway = keep(await startOnFreePorts(options.ports, startOn))
  const hearts = startHeartbeats(postgres.url)
  const description = await describeWorld({ population, gateway, postgres, issuer, backends, audience })
  let stopped: Promise<number> | undefined
  const stopAll = async (): Promise<number> => {
    hearts.stop()
    // The gateway drains first, while its database, issuer and backends still answer.
    const code = await gateway.stop()
    await Promise.all([postgres.stop(), issuer.stop(), backends.stop()])
    return code
  }
  return {
    description,
    postgres,
    gateway,
    ended: gateway.ended,
    stop: () => {
      stopped ??= stopAll()
      return stopped
    },
  }
}

const policies = fileURLToPath(new URL('policies', packageRoot))
const upstreamNames = new Set(['platform', 'agents', 'files', 'graphql', 'data'])

export async function populate(url: string, issuer: string, clusters: ClusterUrls): Promise<Population> {
  const { roles, resources } = loadPolicy(policies, upstreamNames)
  await migrate(url, { resources: [...resources.values()] })
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await seed(client, issuer, clusters, roles.tokenScopes)
  } finally {
    await client.end()
  }
}

function startHeartbeats(url: string): Readonly<{ stop: () => void }> {
  const timer = setInterval(() => {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1_000, query_timeout: 2_000 })
    client.on('error', () => undefined)
    client
      .connect()
      .then(() => client.query(heartbeat))
      .catch(() => undefined)
      .finally(() => client.end().catch(() => undefined))
  }, heartbeatMs)
  return { stop: () => clearInterval(timer) }
}
