import type { Policy } from '../../policy/compile.ts'
import { listRegions, type Region, type Step } from '../../policy/regions.ts'
import { type Method, methods, type PatternSegment, parsePattern, type Route } from '../../policy/route.ts'
import { compileRoutes } from '../../stages/route/table.ts'
import { findRoute } from '../find-route.ts'
import { listUnguarded } from '../lint.ts'
import type { Operation } from './read-operations.ts'

type NamedOperation = Pick<Operation, 'method' | 'template' | 'id' | 'place'>

export type Coverage = Readonly<{
  operations: number
  unrouted: readonly NamedOperation[]
  objects: Readonly<{ operations: number; unguarded: readonly (NamedOperation & Readonly<{ route: string }>)[] }>
  undescribed: readonly Readonly<{ route: string; source: string; path: string; methods: readonly Method[] }>[]
}>

/**
 * An operation has a route if the policy matches its path with parameter values that no route names. A route has an
 * operation if some request matches both: a route for `/datasets/special` belongs to `/datasets/{id}`.
 */
export function coverRoutes({ routes }: Policy, operations: readonly Operation[]): Coverage {
  const table = compileRoutes(routes)
  const described = operations.map((operation) => ({ operation, segments: parsePattern(operation.pattern) }))
  const rows = described.map(({ operation: { pattern } }) => ({ host: undefined, path: pattern }))
  const routed = new Map<Operation, Set<Route>>(operations.map((operation) => [operation, new Set()]))
  const taken = new Map<Route, Set<Method>>(routes.map((route) => [route, new Set()]))
  for (const region of listRegions([...routes, ...rows])) {
    const here = described.filter(({ segments }) => isInstance(region, segments))
    for (const method of here.length > 0 ? methods : []) {
      const route = findRoute(table, region, method)
      for (const { operation, segments } of route ? here : []) {
        if (operation.method !== method) continue
        if (route) taken.get(route)?.add(method)
        if (route && isTypical(region, segments)) routed.get(operation)?.add(route)
      }
    }
  }
  return {
    operations: operations.length,
    unrouted: operations.filter((operation) => routed.get(operation)?.size === 0).map(nameOperation),
    objects: coverObjects(described, routed),
    undescribed: routes.flatMap((route) => {
      const left = listUndescribed(route, taken.get(route) ?? new Set())
      return left.length > 0 ? { route: route.id, source: route.source, path: route.path, methods: left } : []
    }),
  }
}

const nameOperation = ({ method, template, id, place }: Operation): NamedOperation => ({ method, template, id, place })

type Described = Readonly<{ operation: Operation; segments: readonly PatternSegment[] }>

function coverObjects(
  described: readonly Described[],
  routed: ReadonlyMap<Operation, ReadonlySet<Route>>,
): Coverage['objects'] {
  const taking = described
    .filter(({ segments }) => segments.some(({ kind }) => kind !== 'literal'))
    .map((one) => ({ ...one, routes: [...(routed.get(one.operation) ?? [])] }))
    .filter(({ routes }) => routes.length > 0)
  return {
    operations: taking.length,
    unguarded: taking.flatMap(({ operation, segments, routes }) => {
      const open = routes.find((route) => leavesOpen(route, segments))
      return open ? [{ ...nameOperation(operation), route: open.id }] : []
    }),
  }
}

const leavesOpen = (route: Route, segments: readonly PatternSegment[]): boolean =>
  listUnguarded(route).some(({ name, index }) =>
    segments.slice(index, name === '*' ? undefined : index + 1).some(({ kind }) => kind !== 'literal'),
  )

const isInstance = ({ steps }: Region, segments: readonly PatternSegment[]): boolean =>
  steps.length === segments.length && segments.every((segment, index) => takes(segment, steps[index]))

const takes = (segment: PatternSegment, step: Step | undefined): boolean =>
  segment.kind === 'literal' ? segment.text === step?.text : step?.text !== ''

const isTypical = ({ steps }: Region, segments: readonly PatternSegment[]): boolean =>
  segments.every((segment, index) => segment.kind === 'literal' || steps[index]?.isNamed === false)

/** HEAD follows GET. A route without methods takes every method of its path, so one operation describes it. */
function listUndescribed({ methods: own }: Route, taken: ReadonlySet<Method>): readonly Method[] {
  if (taken.size > 0 && own.size === methods.length) return []
  return [...own].filter((method) => !taken.has(method) && !(method === 'HEAD' && own.has('GET')))
}
