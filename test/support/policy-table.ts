import type { Policy } from '../../gateway/policy/compile.ts'
import { parsePolicy } from '../../gateway/policy/load.ts'

/** The parts of a small policy; each has a default. */
export type TableParts = Readonly<{
  /** Each is a path, methods with commas or none, and keys as in YAML, in any order. A comment stays one. */
  routes: readonly string[]
  abilities?: Readonly<Record<string, string>>
  scopes?: Readonly<Record<string, string>>
  bypass?: boolean
  /** The rate limits as YAML in braces. */
  rateLimits?: string
}>

const usualAbilities = {
  'org-client': 'things:run',
  'org-member': 'things:read',
  'org-admin': 'things:write',
  'org-owner': '',
}
const usualScopes = {
  'api-key': 'things:run, things:read',
  'api-secret': 'things:run, things:read, things:write',
}

const anyName: ReadonlySet<string> = Object.assign(new Set<string>(), { has: () => true })

/** Compiles a table, by the same way as one in a folder. */
export const parseTable = (parts: TableParts): Policy =>
  parsePolicy('tables', new Map([['table.yaml', writeTable(parts)]]), anyName)

/** The text of a table, for a folder. */
export function writeTable({
  routes,
  abilities = usualAbilities,
  scopes = usualScopes,
  bypass = true,
  rateLimits,
}: TableParts): string {
  return [
    'organizationRoles:',
    ...Object.entries(abilities).map(([slug, list]) => `  - { slug: ${slug}, name: x, abilities: [${list}] }`),
    `platformRoles: [{ slug: admin, name: x, bypass: ${bypass} }]`,
    'tokenScopes:',
    ...Object.entries(scopes).map(([scope, list]) => `  ${scope}: [${list}]`),
    'routes:',
    ...routes.map((route, index) => (route.startsWith('#') ? `  ${route}` : `  - ${writeRoute(route, index)}`)),
    ...(rateLimits ? [`rateLimits: ${rateLimits}`] : []),
    '',
  ].join('\n')
}

function writeRoute(route: string, index: number): string {
  const [, path = '', methods, keys = ''] = /^(\S+)(?: ([A-Z,]+))? ?(.*)$/.exec(route) ?? []
  // A key, and either a flow mapping or a word.
  const pairs = new Map([...keys.matchAll(/(\w+): (\{.*?\}|\S+)/g)].map(([, key = '', value = '']) => [key, value]))
  const host = pairs.get('host')
  pairs.delete('host')
  const match = [`path: "${path}"`, ...(methods ? [`methods: [${methods}]`] : []), ...(host ? [`host: "${host}"`] : [])]
  const isElsewhere = pairs.has('answer') || pairs.has('cluster')
  const rest = new Map([['surface', 'platform'], ...(isElsewhere ? [] : [['upstream', 'u'] as const]), ...pairs])
  return `{ id: r${index}, match: { ${match.join(', ')} }, ${[...rest].map(([key, value]) => `${key}: ${value}`).join(', ')} }`
}
