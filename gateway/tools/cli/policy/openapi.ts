import { type Coverage, coverRoutes } from '../../../analyze/openapi/cover.ts'
import { draftAdditions, draftRoleTable, draftTable } from '../../../analyze/openapi/draft.ts'
import { type Operation, readOperations } from '../../../analyze/openapi/read-operations.ts'
import { type PolicySource, readPolicy, readText } from '../../../analyze/read-policy.ts'
import { escapeControls, escapeJson, formatTable } from '../../../base/lib/text-table.ts'
import { UsageError } from '../../../configuration/failure.ts'

type Described = Readonly<{ openapi: string; base?: string }>

export function runCoverage(options: PolicySource & Described & Readonly<{ strict?: boolean; json?: boolean }>): void {
  const coverage = coverRoutes(readPolicy(options).policy, readDescribed(options))
  process.stdout.write(options.json ? `${escapeJson(coverage, 2)}\n` : describe(coverage))
  const isIncomplete = coverage.unrouted.length > 0 || (options.strict && coverage.undescribed.length > 0)
  if (isIncomplete) process.exitCode = 1
}

type InitOptions = PolicySource & Described & Readonly<{ upstream: string; roles?: string; add?: boolean }>

export function runInit(options: InitOptions): void {
  const { upstream } = options
  const roles = options.roles === undefined ? undefined : readRoles(options.roles)
  const operations = readDescribed(options)
  if (options.add) writeAdditions(options, operations, roles)
  else if (roles) process.stdout.write(draftRoleTable(operations, upstream, roles))
  else process.stdout.write(draftTable(operations, upstream))
}

/** As the schema of policies has it. */
const slugPattern = /^[A-Za-z][A-Za-z0-9._:-]{0,62}$/

function readRoles(text: string): readonly string[] {
  const roles = text.split(',').map((slug) => slug.trim())
  const isGood = roles.every((slug) => slugPattern.test(slug)) && new Set(roles).size === roles.length
  if (isGood) return roles
  throw new UsageError('--roles takes different names, lowest first, such as viewer,editor,owner')
}

/** On standard output, so that no existing file is touched; the policy is read before a shell's `>>` writes. */
function writeAdditions(options: InitOptions, operations: readonly Operation[], roles?: readonly string[]): void {
  const { policy } = readPolicy(options)
  const ranks = roles?.map((slug) => policy.roles.organization.get(slug)?.rank ?? 0) ?? []
  // In another order, the highest role would read, and the lowest delete.
  if (ranks.some((rank, index) => rank <= (ranks[index - 1] ?? 0)))
    throw new UsageError('with --add, --roles names roles of the policy, in the order in which it lists them')
  const { lines, routes, byHand } = draftAdditions(operations, policy, options.upstream, roles)
  process.stdout.write(routes === 0 ? '' : `${['routes:', ...lines].join('\n')}\n`)
  const left = byHand.map((operation) => `by hand: ${escapeControls(operation)}\n`).join('')
  const missing = routes === 0 ? 'no route is missing' : `${routes} missing route${routes === 1 ? '' : 's'}`
  process.stderr.write(`${left}${missing}\n`)
}

const readDescribed = ({ openapi, base }: Described): readonly Operation[] =>
  readOperations(openapi, readText(openapi), base?.replace(/\/+$/, '').replace(/^(?=[^/])/, '/'))

function describe({ operations, unrouted, objects, undescribed }: Coverage): string {
  const unroutedRows = unrouted.map(({ method, template, id, place }) => [method, template, id ?? '', place])
  const undescribedRows = undescribed.map(({ route, source, path, methods }) => [
    methods.join(' '),
    path,
    route,
    source,
  ])
  const { length: open } = objects.unguarded
  const guarded =
    objects.operations > 0 ? `; ${objects.operations - open} of ${objects.operations} with parameters guarded` : ''
  return [
    ...(unrouted.length > 0
      ? ['Operations without a route', formatTable(['method', 'path', 'operation', 'place'], unroutedRows)]
      : []),
    ...(open > 0
      ? [
          'Operations with a parameter that no resource guards',
          formatTable(
            ['method', 'path', 'operation', 'route', 'place'],
            objects.unguarded.map(({ method, template, id, route, place }) => [
              method,
              template,
              id ?? '',
              route,
              place,
            ]),
          ),
        ]
      : []),
    ...(undescribed.length > 0
      ? ['Routes without an operation', formatTable(['methods', 'path', 'route', 'place'], undescribedRows)]
      : []),
    `${operations} operations, ${unrouted.length} without a route; ${undescribed.length} routes not or not wholly described${guarded}\n`,
  ].join('\n')
}
