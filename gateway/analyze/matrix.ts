import type { RefusalCode } from '../base/errors/gateway-error.ts'
import type { Policy } from '../policy/compile.ts'
import { describeRateLimit } from '../policy/rate-limit.ts'
import type { Roles } from '../policy/role.ts'
import { evaluate } from './evaluate.ts'
import type { HypotheticalCaller } from './hypothetical-caller.ts'

export type Column = Readonly<{ role: string; credential: string; caller: HypotheticalCaller | undefined }>

export type Cell = Readonly<{ role: string; credential: string; outcome: 'allowed' | RefusalCode }>

export type MatrixRow = Readonly<{
  route: string
  source: string
  methods: readonly string[]
  path: string
  upstreamPath?: string
  rateLimit?: string
  cells: readonly Cell[]
}>

/**
 * Evaluates every route for every kind of caller, with the decision that judges requests. Callers are one without a
 * credential, one without an organization, each role, and the lowest role with each bypass scope. Credentials are an
 * OAuth token and a token of each scope. A guarded agent belongs to the caller's organization.
 */
export function buildMatrix({ routes, roles }: Policy): readonly MatrixRow[] {
  const columns = listColumns(roles)
  return routes.map((route) => ({
    route: route.id,
    source: route.source,
    methods: [...route.methods],
    path: route.path,
    ...(route.rewrite && { upstreamPath: route.rewrite.path }),
    ...(route.rateLimit && { rateLimit: describeRateLimit(route.rateLimit) }),
    cells: columns.map(({ role, credential, caller }) => ({
      role,
      credential,
      outcome: evaluate(route, caller, roles),
    })),
  }))
}

export function listColumns(roles: Roles): readonly Column[] {
  const lowest = [...roles.organization.keys()][0]
  const bypasses = [...roles.platform.values()].filter(({ isBypassScope }) => isBypassScope)
  const holders = [
    { name: 'no organization', role: undefined, platformRoles: [] },
    ...[...roles.organization.keys()].map((role) => ({ name: role, role, platformRoles: [] })),
    ...bypasses.map(({ slug }) => ({ name: `${slug} in ${lowest}`, role: lowest, platformRoles: [slug] })),
  ]
  const credentials = [
    { credential: 'oauth', tokenAbilities: undefined },
    ...[...roles.tokenScopes].map(([credential, abilities]) => ({ credential, tokenAbilities: [...abilities] })),
  ]
  return [
    { role: 'anonymous', credential: 'none', caller: undefined },
    ...credentials.flatMap(({ credential, tokenAbilities }) =>
      holders.map(({ name, role, platformRoles }) => ({
        role: name,
        credential,
        caller: { role, platformRoles, tokenAbilities, agent: 'own' as const },
      })),
    ),
  ]
}
