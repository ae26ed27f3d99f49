import type { DemoBackends } from './backends/start-backends.ts'
import type { GatewayProcess } from './gateway-process.ts'
import type { DemoIssuer } from './issuer.ts'
import type { EmbeddedPostgres } from './postgres.ts'
import { type DemoUser, demoUsers, identityOf, type Population } from './seed.ts'

type Parts = Readonly<{
  population: Population
  gateway: GatewayProcess
  postgres: EmbeddedPostgres
  issuer: DemoIssuer
  backends: DemoBackends
  audience: string
}>

export type WorldDescription = Awaited<ReturnType<typeof describeWorld>>

export async function describeWorld({ population, gateway, postgres, issuer, backends, audience }: Parts) {
  const users = await Promise.all(
    demoUsers.map(async (user) => {
      const jwt = await issuer.mint({ ...identityOf(user), expiresIn: 12 * 60 * 60 })
      return [user, { id: population.users[user], ...identityOf(user), jwt }] as const
    }),
  )
  const { acme, globex, initech } = population.organizations
  return {
    pids: { gateway: gateway.pid, demo: process.pid, postgres: postgres.pid() },
    public: gateway.public,
    decision: gateway.decision,
    admin: gateway.admin,
    databaseUrl: postgres.url,
    redisUrl: process.env.REDIS_URL || null,
    oidc: { issuer: issuer.issuer, audience, mintUrl: issuer.mintUrl },
    users: Object.fromEntries(users) as Record<DemoUser, { id: number; sub: string; email: string; jwt: string }>,
    serviceAccounts: population.serviceAccounts,
    organizations: {
      acme: { id: acme, accountType: 'enterprise' },
      globex: { id: globex, accountType: 'team' },
      initech: { id: initech, accountType: 'enterprise' },
    },
    agents: { acme: 1, globex: 2, public: 3 },
    clusters: { healthy: 1, suspended: 2, stale: 3, deleting: 4, unreachable: 5, globex: 6 },
    objects: population.objects,
    backends: { recorder: backends.urls.recorder },
  }
}
