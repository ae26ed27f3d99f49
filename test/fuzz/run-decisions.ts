import fc from 'fast-check'
import type { World } from '../../demo/world.ts'
import type { Owner } from '../support/owner.ts'
import { startReplica } from '../support/replicas.ts'
import { decisionRoutes, isOwners, type Question, questions, toQuestionBytes } from './decisions.ts'
import { reportProgress } from './report-progress.ts'
import { callersOf, type FuzzOptions, type FuzzReport, patientDatabase, type Violation } from './run-fuzz.ts'
import { openSender } from './sender.ts'

const portion = 500

/** Each question is whole, so that each has an answer, late on a busy machine. */
const firstByteMs = 10_000

/** Asks the decision listener as proxies do whose clients lie, and looks for what it should not have permitted. */
export async function runDecisions(
  owner: Owner,
  world: World['description'],
  { seed, requests, isTimeUp, clients, isTalkative }: FuzzOptions,
): Promise<FuzzReport> {
  const violations: Violation[] = []
  const statuses = new Map<number, number>()
  const settings = { log: { level: 'error' }, database: patientDatabase(world) }
  const replica = await startReplica(owner, { world, routes: decisionRoutes, settings })
  const arbitrary = questions(callersOf(world))
  let asked = 0
  const generate = function* (): Generator<Question> {
    for (let portions = 0; ; portions += 1)
      for (const question of fc.sample(arbitrary, { numRuns: portion, seed: seed + portions })) {
        if (asked >= requests || isTimeUp() || violations.length > 0) return
        asked += 1
        yield question
      }
  }
  const generated = isTalkative ? reportProgress(generate(), `decisions, seed ${seed}`) : generate()
  const work = async (): Promise<void> => {
    const send = openSender(owner, replica.decision, firstByteMs)
    for (let next = generated.next(); !next.done; next = generated.next()) {
      const question = next.value
      const bytes = toQuestionBytes(question)
      const answers = await send(bytes)
      for (const { status } of answers) {
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
        const faults = [
          ...(status === 500 || status > 501 ? [`answered ${status}`] : []),
          ...(status === 200 && isOwners(question.truth) ? ['permitted what is the owner’s'] : []),
          ...(status === 200 && !question.caller ? ['permitted without a caller'] : []),
        ]
        for (const what of faults)
          violations.push({ what, sent: bytes.toString('latin1'), arrived: JSON.stringify(answers) })
      }
    }
  }
  await Promise.all(Array.from({ length: clients }, work))
  const code = await replica.stop()
  if (code !== 0)
    violations.push({ what: `the gateway ended with ${code}`, sent: undefined, arrived: replica.readLog() })
  return { requests: asked, arrived: statuses.get(200) ?? 0, statuses, violations }
}
