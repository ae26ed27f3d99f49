import { findFreePort } from '../../../demo/free-port.ts'
import { startIssuer } from '../../../demo/issuer.ts'
import { generatePem } from '../../../gateway/tools/cli/keys.ts'
import type { Manifest } from '../../support/deploy.ts'
import { startHttpUpstream } from '../../support/http-upstream.ts'
import type { Owner } from '../../support/owner.ts'
import { shippedPolicies } from '../../support/pod.ts'
import { oauth, startTestPostgres } from '../../support/world.ts'

/** An upgrade by a change of the chart's values, most often a mistake. */
export type Upgrade = Readonly<{
  name: string
  values: Manifest
  /** Whether the new pods serve anyway. */
  isHarmless?: true
  /** The end of the log of a new pod, as far as it tells an operator what to do. */
  says: RegExp
  /** The hook that ends the upgrade before any pod changes, and says the same. */
  refusedBy?: 'check-policy' | 'check-directory'
  /** Whether a new pod ends, so that its last state has the end of its log. */
  ends?: true
}>

/** A database with its schema, an issuer, an upstream, and the Secrets by their names. */
export type UpgradeFixture = Readonly<{
  values: Manifest
  secrets: Readonly<Record<string, Record<string, string>>>
  upgrades: readonly Upgrade[]
  /** Headers of a request that a gateway allows. */
  credentials: Readonly<Record<string, string>>
}>

const audience = 'my-api'

export async function startUpgradeFixture(owner: Owner): Promise<UpgradeFixture> {
  const [postgres, empty, issuer, upstream, deadPort] = await Promise.all([
    startTestPostgres(),
    startTestPostgres(),
    startIssuer({ audience }),
    startHttpUpstream(owner),
    findFreePort(),
  ])
  owner.teardown(() => Promise.all([postgres.stop(), empty.stop(), issuer.stop()]))
  const wrong = new URL(postgres.url)
  wrong.password = 'wrong'
  const names = ['platform', 'agents', 'files', 'graphql', 'data']
  const values: Manifest = {
    image: { repository: 'registry.example/platform/sallyport' },
    config: {
      issuers: [{ issuer: issuer.issuer, audience }],
      upstreams: Object.fromEntries(names.map((name) => [name, { url: upstream.url }])),
      drain: { delayMs: 2_000, timeoutMs: 5_000 },
    },
    database: { secretName: 'database' },
    signingKeys: { secretName: 'keys' },
    policies: { files: shippedPolicies() },
    replicaCount: 2,
    minReadySeconds: 1,
    probes: { readiness: { periodSeconds: 1 } },
    checks: { backoffLimit: 0 },
    migrations: { backoffLimit: 0 },
  }
  const jwt = await issuer.mint({ sub: 'first', email: 'first@example.com' })
  return {
    values,
    secrets: {
      keys: { 'identity.pem': generatePem('EdDSA') },
      database: { url: postgres.url },
      'database-empty': { url: empty.url },
      'database-wrong': { url: wrong.href },
      'redis-dead': { url: `redis://127.0.0.1:${deadPort}` },
    },
    upgrades: listUpgrades(issuer.issuer),
    credentials: oauth({ jwt }),
  }
}

const listUpgrades = (issuer: string): readonly Upgrade[] => [
  {
    name: 'a wrong realm',
    values: { config: { issuers: [{ issuer: `${issuer}/realms/other`, audience }] } },
    says: /realms\/other has given no keys: \S+\/realms\/other\/.well-known\/openid-configuration answered 404/,
  },
  {
    name: 'a schema that is not migrated',
    values: { database: { secretName: 'database-empty' } },
    says: /run \\?"sallyport migrate\\?"/,
    refusedBy: 'check-directory',
  },
  {
    name: 'a wrong password of the database',
    values: { database: { secretName: 'database-wrong' } },
    says: /database\.url: the server refused the password; mend it/,
    refusedBy: 'check-directory',
  },
  {
    name: 'a bad policy',
    // Running pods only reload policies. The label makes new pods, which start with the bad one.
    values: {
      podLabels: { version: 'broken' },
      policies: { files: { 'routes.yaml': 'routes: [{ id: broken, upstream: nowhere }]\n' } },
    },
    says: /routes\.yaml:1:10: (?:error: )?routes\.0 lacks "match"; add it/,
    refusedBy: 'check-policy',
    ends: true,
  },
  {
    name: 'a dead Redis',
    values: { redis: { secretName: 'redis-dead' } },
    isHarmless: true,
    says: /connect ECONNREFUSED .*"consequence":"heartbeats in redis are not read; /,
  },
]
