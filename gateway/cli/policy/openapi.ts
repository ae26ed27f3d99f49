import { type Coverage, coverRoutes } from '../../analyze/openapi/cover.ts'
import { draftTable } from '../../analyze/openapi/draft.ts'
import { type Operation, readOperations } from '../../analyze/openapi/read-operations.ts'
import { type PolicySource, readPolicy, readText } from '../../analyze/read-policy.ts'
import { escapeJson, formatTable } from '../../lib/text-table.ts'

type Described = Readonly<{ openapi: string; base?: string }>

export function runCoverage(options: PolicySource & Described & Readonly<{ strict?: boolean; json?: boolean }>): void {
  const coverage = coverRoutes(readPolicy(options).policy, readDescribed(options))
  process.stdout.write(options.json ? `${escapeJson(coverage, 2)}\n` : describe(coverage))
  const isIncomplete = coverage.unrouted.length > 0 || (options.strict && coverage.undescribed.length > 0)
  if (isIncomplete) process.exitCode = 1
}

export function runInit(options: Described & Readonly<{ upstream: string }>): void {
  process.stdout.write(draftTable(readDescribed(options), options.upstream))
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
