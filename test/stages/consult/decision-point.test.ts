import t from 'tap'
import type { Consultation } from '../../../gateway/stages/consult/compose.ts'
import { createDecisionPoint, type PdpOutcome, type Post } from '../../../gateway/stages/consult/decision-point.ts'
import { createSimulatedClock } from '../../support/simulated-clock.ts'

const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

type Question = Readonly<{ body: string; withinMs: number; fail: () => void }>

/** A decision point with a deadline of 50 ms, which never answers. */
function open() {
  const clock = createSimulatedClock()
  const questions: Question[] = []
  const outcomes: PdpOutcome[] = []
  const post: Post = (_, body, withinMs) =>
    new Promise((_, reject) => questions.push({ body, withinMs, fail: () => reject(new Error('no answer')) }))
  const point = createDecisionPoint({
    post,
    deadlineMs: 50,
    cacheMs: 1_000,
    recheckMs: 10_000,
    maxInFlight: 64,
    maxInFlightPerOrganization: 16,
    maxEntries: 100,
    heardSince: () => false,
    heardPosition: () => 0,
    clock,
    onRead: () => undefined,
    onOutcome: (outcome) => outcomes.push(outcome),
  })
  let drawn = 0
  const ask = async (owner = 'acme'): Promise<string> => {
    const group = { pdp: 'pdp', body: String(drawn++), places: [0] }
    const about: Consultation = { groups: [group], count: 1, owner, tags: [], expiresAtMs: undefined }
    try {
      return String(await point.ask(group, about, 0))
    } catch (error) {
      return String((error as { exactCause: string }).exactCause)
    }
  }
  return { clock, questions, outcomes, ask }
}

t.test('a question has what is left of the deadline, and one without room ends with it', async (t) => {
  const { clock, questions, ask } = open()
  const asked = Array.from({ length: 64 }, () => ask())
  t.equal(questions.length, 16, 'the share of the organization')
  t.same(new Set(questions.map(({ withinMs }) => withinMs)), new Set([50]))
  await clock.pass(20)
  questions[0]?.fail()
  await tick()
  t.equal(questions.at(-1)?.withinMs, 30, 'one that waited has less')
  await clock.pass(30)
  for (const { fail } of questions) fail()
  const told = await Promise.all(asked)
  t.equal(told.filter((cause) => cause === 'pdp_busy').length, 47, 'those that waited')
  t.equal(told.filter((cause) => cause === 'pdp_unanswered').length, 17)
})

t.test('five questions without an answer open the circuit: then it answers without asking', async (t) => {
  const { clock, questions, outcomes, ask } = open()
  const failOne = async (): Promise<string> => {
    const asked = ask()
    questions.at(-1)?.fail()
    return asked
  }
  for (let count = 0; count < 5; count++) t.equal(await failOne(), 'pdp_unanswered')
  for (let count = 0; count < 1_000; count++) t.equal(await ask(), 'pdp_circuit_open')
  t.equal(questions.length, 5, 'nothing was asked')
  t.equal(outcomes.filter((outcome) => outcome === 'circuit_open').length, 1_000)
  await clock.pass(1_000)
  const probe = ask()
  t.equal(await ask(), 'pdp_circuit_open', 'one question a second alone')
  t.equal(questions.length, 6)
  questions.at(-1)?.fail()
  t.equal(await probe, 'pdp_unanswered')
  const other = ask('globex')
  t.equal(questions.length, 7, 'of another organization it is closed')
  questions.at(-1)?.fail()
  await other
})
