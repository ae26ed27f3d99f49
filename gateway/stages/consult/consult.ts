// The last check: a route may ask decision points outside, whose answers are awaited before the permit.

import { GatewayError, type RefusalCause } from '../../base/errors/gateway-error.ts'
import { type Awaitable, andThen } from '../../base/lib/awaitable.ts'
import { enforce, type Pending, type Permit, settle } from '../authorize/decide.ts'
import { type Consultation, composeConsultation } from './compose.ts'
import type { DecisionPoint } from './decision-point.ts'

export type Consult = (pending: Pending, exchange?: object) => Awaitable<Permit>

export type AskAgain = (about: Consultation) => Promise<boolean>

type FollowedQuestion = Readonly<{ answered: (isYes: boolean) => void; failed: (cause: RefusalCause) => void }>

export type FollowQuestion = (exchange: object, pdp: string) => FollowedQuestion | undefined

export type ConsultOptions = Readonly<{
  points: ReadonlyMap<string, DecisionPoint>
  generation: () => number
  follow: FollowQuestion | undefined
}>

type Answer = Awaitable<readonly boolean[]>

export function createConsult({ points, generation, follow }: ConsultOptions) {
  const askAll = (about: Consultation, exchange?: object): Awaitable<readonly unknown[]> => {
    const current = generation()
    const named = about.groups.map((group) => {
      const point = points.get(group.pdp)
      if (!point) throw new GatewayError('internal')
      return { group, point }
    })
    const asked = named.map(({ group, point }): Answer => {
      const answer = point.ask(group, about, current)
      return follow && exchange && answer instanceof Promise ? tell(answer, follow(exchange, group.pdp)) : answer
    })
    const place = (decisions: readonly (readonly boolean[])[]): readonly unknown[] => {
      const placed: unknown[] = Array.from({ length: about.count })
      for (const [index, { places }] of about.groups.entries())
        for (const [at, spot] of places.entries()) placed[spot] = decisions[index]?.[at]
      return placed
    }
    // Held answers are there at once: a request that needs no other waits for no turn of the event loop.
    const ready = asked.filter((decisions): decisions is readonly boolean[] => !(decisions instanceof Promise))
    return ready.length === asked.length ? place(ready) : Promise.all(asked).then(place)
  }
  const consult: Consult = (pending, exchange) =>
    andThen(askAll(composeConsultation(pending.match, pending.caller), exchange), (answers) =>
      enforce(settle(pending, answers)),
    )
  const askAgain: AskAgain = async (about) => {
    const answers = await askAll(about)
    return answers.length === about.count && answers.every((answer) => answer === true)
  }
  // An open exchange rests on all its answers, so the decision point that wants to be asked soonest sets the pace.
  const recheckMsOf = ({ groups }: Consultation): number =>
    Math.min(...groups.map(({ pdp }) => points.get(pdp)?.recheckMs ?? 0))
  const shareOf = ({ groups }: Consultation): number =>
    Math.min(...groups.map(({ pdp }) => points.get(pdp)?.share ?? 1))
  return { consult, askAgain, recheckMsOf, shareOf }
}

async function tell(answer: Promise<readonly boolean[]>, followed: FollowedQuestion | undefined) {
  try {
    const decisions = await answer
    followed?.answered(decisions.every(Boolean))
    return decisions
  } catch (error) {
    followed?.failed(GatewayError.from(error).exactCause)
    throw error
  }
}
