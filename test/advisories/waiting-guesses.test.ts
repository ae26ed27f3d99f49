import t from 'tap'
import { createLane } from '../../gateway/stages/authenticate/introspection/lane.ts'
import { createSimulatedClock } from '../support/simulated-clock.ts'

const timeoutMs = 1_000
const latencyMs = 100
const maxInFlight = 2
const floodMs = 5_000

t.test(
  'guesses of one address that wait for their turn close no issuer to others, and reach it no faster',
  async (t) => {
    const clock = createSimulatedClock()
    const lane = createLane({ maxInFlight, timeoutMs, clock })
    let asked = 0
    const ask = (withinMs: number): Promise<void> =>
      new Promise((resolve, reject) => {
        asked += 1
        if (withinMs < latencyMs) clock.after(withinMs, () => reject(new Error('no answer in time')))
        else clock.after(latencyMs, resolve)
      })
    const told = { guesser: new Map<string, number>(), honest: new Map<string, number>() }
    const send = async (owner: keyof typeof told): Promise<void> => {
      const outcome = await lane.run(owner, ask).then(
        () => 'answered',
        (error) => String(error.code),
      )
      told[owner].set(outcome, (told[owner].get(outcome) ?? 0) + 1)
    }
    let guesses = 0
    for (let passedMs = 0; passedMs < floodMs; passedMs += latencyMs / 2) {
      // Four times what the issuer can answer.
      for (let count = 0; count < 4; count += 1) {
        void send('guesser')
        guesses += 1
      }
      if (passedMs % 200 === 0) void send('honest')
      await clock.pass(latencyMs / 2)
    }
    await clock.pass(2 * timeoutMs)
    const { guesser, honest } = told
    t.same([...honest], [['answered', 25]])
    t.same(new Set(guesser.keys()), new Set(['answered', 'lookups_busy']))
    t.equal(
      [...guesser.values()].reduce((sum, count) => sum + count),
      guesses,
    )
    const mostAsked = ((floodMs + timeoutMs) / latencyMs) * maxInFlight
    t.ok(asked <= mostAsked, `${asked} questions, and ${mostAsked} at most`)
  },
)

t.test('an issuer that answers none of its first questions is given a rest, whatever waits', async (t) => {
  const clock = createSimulatedClock()
  const lane = createLane({ maxInFlight: 5, timeoutMs, clock })
  let asked = 0
  const ask = (withinMs: number): Promise<void> =>
    new Promise((_resolve, reject) => {
      asked += 1
      clock.after(withinMs, () => reject(new Error('silent')))
    })
  const refusals = Array.from({ length: 50 }, () => lane.run('guesser', ask).catch(({ code }) => code))
  await clock.pass(timeoutMs)
  t.same(new Set(await Promise.all(refusals)), new Set(['issuer_unavailable', 'lookups_busy']))
  for (let count = 0; count < 10; count += 1) lane.run('honest', ask).catch(() => undefined)
  await clock.pass(0)
  t.equal(asked, 5)
})
