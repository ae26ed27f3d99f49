import type { Policy } from '../policy/compile.ts'

export type Warning = Readonly<{ source: string; message: string }>

const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

export function lintPolicy({ routes, roles, rateLimits }: Policy): readonly Warning[] {
  const required = new Set(routes.flatMap(({ ability }) => ability ?? []))
  const unused = [...roles.highest.abilities].filter((ability) => !required.has(ability))
  const open = routes
    .filter(({ isPublic }) => isPublic)
    .map(({ id, source }) => ({
      source,
      message: `route "${id}" is public: it serves requests without a credential`,
    }))
  const unguarded = routes
    .filter(
      ({ isPublic, role, ability, destination }) => !isPublic && !role && !ability && destination.kind !== 'answer',
    )
    .map(({ id, source }) => ({
      source,
      message: `route "${id}" requires neither role nor ability: every authenticated caller passes`,
    }))
  const roleOnly = routes
    .filter(({ role, ability }) => role && ability === undefined)
    .map(({ id, source }) => ({
      source,
      message: `route "${id}" requires a role and no ability: every API token of a holder passes`,
    }))
  const changing = routes
    .filter(
      ({ resource, methods }) =>
        resource?.kind === 'object' && resource.isPublic && [...methods].some((method) => !safeMethods.has(method)),
    )
    .map(({ id, source }) => ({
      source,
      message: `route "${id}" takes public resources of other organizations, and a method that changes state`,
    }))
  const idle = unused.map((ability) => ({ source: 'roles', message: `no route requires the ability "${ability}"` }))
  const limiting = new Set(routes.flatMap(({ rateLimit }) => rateLimit?.name ?? []))
  const unnamed = [...rateLimits.keys()]
    .filter((name) => !limiting.has(name))
    .map((name) => ({ source: 'rateLimits', message: `no route names the rate limit "${name}"` }))
  return [...open, ...unguarded, ...roleOnly, ...changing, ...idle, ...unnamed]
}
