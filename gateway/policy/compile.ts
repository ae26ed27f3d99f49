import { compileRoles } from './compile-roles.ts'
import { compileRoute } from './compile-route.ts'
import { ConfigurationError, type Problem } from './configuration-error.ts'
import type { PolicyFile } from './file.ts'
import type { Roles } from './role.ts'
import { type PatternSegment, parsePattern, type Route } from './route.ts'

/** The whole table, checked and frozen. */
export type Policy = Readonly<{ roles: Roles; routes: readonly Route[] }>

/** Collects every mistake before it throws one `ConfigurationError`. */
export function compilePolicy(files: readonly PolicyFile[], upstreamNames: ReadonlySet<string>): Policy {
  const problems: Problem[] = []
  const roles = compileRoles(files, problems)
  if (!roles) throw new ConfigurationError(problems)
  const routes: Route[] = []
  const takenIds = new Map<string, string>()
  const takenPatterns = new Map<string, string>()
  for (const { yaml, content } of files) {
    for (const [index, row] of (content.routes ?? []).entries()) {
      const report = (path: readonly string[], message: string): void => {
        problems.push(yaml.problemAt(['routes', index, ...path], `route "${row.id}": ${message}`))
      }
      const { line } = yaml.problemAt(['routes', index], '')
      const route = compileRoute(row, `${yaml.name}:${line}`, roles, upstreamNames, report)
      if (!route) continue
      refuseTie(takenIds, row.id, route, (other) => report(['id'], `the id is taken by ${other}`))
      for (const key of patternKeys(route))
        refuseTie(takenPatterns, key, route, (other) =>
          report(['match'], `matches the same requests as ${other}; one of them would never be reached`),
        )
      routes.push(route)
    }
  }
  if (problems.length > 0) throw new ConfigurationError(problems)
  return Object.freeze({ roles, routes: Object.freeze(routes) })
}

function refuseTie(taken: Map<string, string>, key: string, route: Route, report: (other: string) => void): void {
  const other = taken.get(key)
  if (other === undefined) taken.set(key, `"${route.id}" (${route.source})`)
  else report(other)
}

/** Two patterns tie when they differ in nothing but the names of their parameters. */
function patternKeys(route: Route): readonly string[] {
  const shape = parsePattern(route.path).map(segmentKey).join('/')
  return [...route.methods].map((method) => `${method} ${route.host ?? '*'} ${shape}`)
}

function segmentKey(segment: PatternSegment): string {
  switch (segment.kind) {
    case 'literal':
      return encodeURIComponent(segment.text)
    case 'param':
      return ':'
    case 'rest':
      return '*'
  }
}
