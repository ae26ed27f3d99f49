import { enforce, type Pending, type Permit, settle } from '../authorize/decide.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { type Awaitable, andThen } from '../lib/awaitable.ts'
import { type Consultation, composeConsultation } from './compose.ts'
import type { DecisionPoint } from './decision-point.ts'

export type Consult = (pending: Pending) => Awaitable<Permit>

export type AskAgain = (about: Consultation) => Promise<boolean>

export type ConsultOptions = Readonly<{
  points: ReadonlyMap<string, DecisionPoint>
  generation: () => number
}>

export function createConsult({ points, generation }: ConsultOptions) {
  const askAll = (about: Consultation): Awaitable<readonly unknown[]> => {
    const current = generation()
    const named = about.groups.map((group) => {
      const point = points.get(group.pdp)
      if (!point) throw new GatewayError('internal')
      return { group, point }
    })
    const asked = named.map(({ group, point }) => point.ask(group, about, current))
    const place = (decisions: readonly (readonly boolean[])[]): readonly unknown[] => {
      const placed: unknown[] = Array.from({ length: about.count })
      for (const [index, { places }] of about.groups.entries())
        for (const [at, spot] of places.entries()) placed[spot] = decisions[index]?.[at]
      return placed
    }
    const ready = asked.filter((decisions): decisions is readonly boolean[] => !(decisions instanceof Promise))
    return ready.length === asked.length ? place(ready) : Promise.all(asked).then(place)
  }
  const consult: Consult = (pending) =>
    andThen(askAll(composeConsultation(pending.match, pending.caller)), (answers) => enforce(settle(pending, answers)))
  const askAgain: AskAgain = async (about) => {
    const answers = await askAll(about)
    return answers.length === about.count && answers.every((answer) => answer === true)
  }
  const recheckMsOf = ({ groups }: Consultation): number =>
    Math.min(...groups.map(({ pdp }) => points.get(pdp)?.recheckMs ?? 0))
  return { consult, askAgain, recheckMsOf }
}
