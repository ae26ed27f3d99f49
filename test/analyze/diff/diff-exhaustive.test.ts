import { deepStrictEqual } from 'node:assert'
import fc from 'fast-check'
import t from 'tap'
import { diffPolicies } from '../../../gateway/analyze/diff/diff.ts'
import { createHypotheticalCaller } from '../../../gateway/analyze/hypothetical-caller.ts'
import type { Policy } from '../../../gateway/policy/compile.ts'
import { decide } from '../../../gateway/stages/authorize/decide.ts'
import { readTarget } from '../../../gateway/stages/receive/target.ts'
import { compileRoutes, type RouteMatch } from '../../../gateway/stages/route/table.ts'
import { parseTable } from '../../support/policy-table.ts'

/** Routes over few words, so that they overlap in every way. */
const segment = fc.constantFrom('a', 'b', ':x')
const path = fc
  .tuple(fc.array(segment, { maxLength: 3 }), fc.constantFrom('', '*', 'a', '/'))
  .map(([parts, end]) => [...parts.map((part, index) => (part === ':x' ? `:x${index}` : part)), end])
  .map((parts) => `/${parts.join('/')}`.replace(/\/+/g, '/'))
const keys = fc.constantFrom(
  '',
  'access: public',
  'require: { role: org-member }',
  'require: { role: org-owner }',
  'require: { role: org-member, ability: things:read }',
  'require: { ability: things:write }',
)
const row = fc
  .tuple(
    path,
    fc.constantFrom('GET', 'POST', 'GET,POST'),
    fc.constantFrom('', 'host: h.example', 'host: *.example'),
    keys,
  )
  .map((parts) => parts.filter((part) => part !== '').join(' '))

const table = fc.uniqueArray(row, {
  minLength: 1,
  maxLength: 6,
  // Routes that tie would be refused.
  selector: (line) => `${line.replace(/:x\d/g, ':').split(' ')[0]} ${/host: \S+/.exec(line)}`,
})

/** All short paths over the words of the routes and one that they do not have. */
const words = ['a', 'b', 'c']
const paths = [1, 2, 3, 4, 5].flatMap((length) =>
  Array.from({ length: length - 1 }).reduce<readonly string[]>(
    (begun) => begun.flatMap((begin) => words.map((word) => `${begin}/${word}`)),
    [...words, ''].map((word) => `/${word}`),
  ),
)
const plainPaths = [...new Set(paths.flatMap((one) => [one, `${one}/`]))].filter((one) => !one.includes('//'))

const callers = [undefined, 'org-client', 'org-member', 'org-admin', 'org-owner'].flatMap((role) =>
  [undefined, [], ['things:read'], ['things:write'], ['things:read', 'things:write']].map((tokenAbilities) =>
    createHypotheticalCaller({ role, platformRoles: [], tokenAbilities, agent: 'own' }, undefined),
  ),
)

function find(match: (path: string) => RouteMatch, at: string): RouteMatch | undefined {
  try {
    return match(at)
  } catch {
    return undefined
  }
}

/** The callers who may pass, judged once for each route. */
function askOf({ roles }: Policy): (found: RouteMatch | undefined) => readonly boolean[] {
  const known = new Map<string | undefined, readonly boolean[]>()
  return (found) => {
    const verdicts =
      known.get(found?.route.id) ??
      [undefined, ...callers].map((caller) => found !== undefined && decide(found, caller, roles).isAllowed)
    known.set(found?.route.id, verdicts)
    return verdicts
  }
}

/** The pairs of routes that treat a caller differently, by asking about every request. */
function tryEverything(old: Policy, fresh: Policy): ReadonlySet<string> {
  const tables = { old: compileRoutes(old.routes), new: compileRoutes(fresh.routes) }
  const mayPass = { old: askOf(old), new: askOf(fresh) }
  const changed = new Set<string>()
  for (const host of ['h.example', 'i.example', 'h.h.example'])
    for (const method of ['GET', 'POST'])
      for (const at of plainPaths) {
        // Without other readings: for these a path is refused if a caller could reach something by them.
        const target = { ...readTarget(method, at, host), path: '/plain' }
        const before = find(() => tables.old.match(target, host), at)
        const after = find(() => tables.new.match(target, host), at)
        const was = mayPass.old(before)
        const now = mayPass.new(after)
        for (const verb of ['gains', 'loses'] as const)
          if (was.some((passed, index) => passed !== now[index] && passed === (verb === 'loses')))
            changed.add(`${verb} ${method} ${before?.route.id} ${after?.route.id}`)
      }
  return changed
}

t.test('a diff finds what asking about every request finds, and nothing else', async (t) => {
  let changes = 0
  fc.assert(
    fc.property(table, table, (oldRoutes, freshRoutes) => {
      const [old, fresh] = [oldRoutes, freshRoutes].map((routes) => parseTable({ routes })) as [Policy, Policy]
      const expected = tryEverything(old, fresh)
      const diff = diffPolicies({ old, new: fresh })
      const found = new Set(
        diff.routes.flatMap(({ methods, old: before, new: after, gains, losses }) =>
          methods
            .filter((method) => method === 'GET' || method === 'POST')
            .flatMap((method) =>
              [gains.length > 0 ? 'gains' : [], losses.length > 0 ? 'loses' : []]
                .flat()
                .map((verb) => `${verb} ${method} ${before?.route} ${after?.route}`),
            ),
        ),
      )
      changes += expected.size
      deepStrictEqual([...found].sort(), [...expected].sort())
    }),
    { numRuns: 60, seed: 7 },
  )
  t.ok(changes > 300, `${changes} changes`)
})
