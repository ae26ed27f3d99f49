import type { RefusalCode } from '../../base/errors/gateway-error.ts'
import type { Roles } from '../../policy/role.ts'
import type { Route } from '../../policy/route.ts'
import { evaluate } from '../evaluate.ts'
import { type AskedQuestion, listWidened, questionFields } from './classified-fields.ts'
import { type ComparedCaller, composeCallers } from './compose-callers.ts'
import type { PolicyPair, RoutePair } from './pairs.ts'

export type Outcome = 'allowed' | 'asked' | 'no_route' | 'no_credential' | RefusalCode

export type ChangedCell = Readonly<{ role: string; credential: string; relation: string; was: Outcome; now: Outcome }>

export type Access = Readonly<{ gains: readonly ChangedCell[]; losses: readonly ChangedCell[] }>

export function compareAccess(policies: PolicyPair, routes: RoutePair): Access {
  if (!routes.old && !routes.new) return { gains: [], losses: [] }
  const dropped = findMissing(routes.old, routes.new)
  const added = findMissing(routes.new, routes.old)
  const cells = composeCallers(policies, routes).map(
    ({ role, credential, relation, old, new: fresh }): ChangedCell => ({
      role,
      credential,
      relation,
      was: old === 'absent' ? 'no_credential' : askedOr(dropped, evaluateAt(routes.old, old, policies.old.roles)),
      now: askedOr(added, evaluateAt(routes.new, fresh, policies.new.roles)),
    }),
  )
  return {
    gains: shorten(cells, ({ was, now }) => was !== 'allowed' && passes(now)),
    losses: shorten(cells, ({ was, now }) => passes(was) && now !== 'allowed'),
  }
}

const passes = (outcome: Outcome): boolean => outcome === 'allowed' || outcome === 'asked'

const askedOr = (questions: readonly AskedQuestion[], outcome: Outcome): Outcome =>
  outcome === 'allowed' && questions.length > 0 ? 'asked' : outcome

function findMissing(route: Route | undefined, other: Route | undefined): readonly AskedQuestion[] {
  if (!route || !other) return []
  const known = listAsked(other)
  return listAsked(route).filter(
    (question) => !known.some((same) => listWidened(questionFields, question, same).length === 0),
  )
}

const listAsked = (route: Route): readonly AskedQuestion[] =>
  route.questions.map((question) => ({ ...question, by: route }))

const evaluateAt = (route: Route | undefined, caller: ComparedCaller['new'], roles: Roles): Outcome =>
  route ? evaluate(route, caller, roles) : 'no_route'

function shorten(cells: readonly ChangedCell[], isChanged: (cell: ChangedCell) => boolean): readonly ChangedCell[] {
  const chosen = new Map<string, ChangedCell>()
  for (const cell of cells.filter(isChanged)) {
    const alike = cells.filter(({ role, credential }) => role === cell.role && credential === cell.credential)
    const short = alike.every(isChanged) ? { ...cell, relation: '' } : cell
    const key = JSON.stringify([short.role, short.credential, short.relation])
    if (!chosen.has(key)) chosen.set(key, short)
  }
  return [...chosen.values()]
}
