import t from 'tap'
import { parseUnambiguous } from '../../../gateway/base/lib/parse-shallow.ts'
import { UnusableAnswer } from '../../../gateway/stages/authenticate/ask-issuer.ts'
import { createLane } from '../../../gateway/stages/authenticate/introspection/lane.ts'
import { createSimulatedClock } from '../../support/simulated-clock.ts'

/** A lane on a clock of the test's; questions are answered when the test says so. */
function holdLane(maxInFlight: number) {
  const clock = createSimulatedClock()
  const lane = createLane({ maxInFlight, timeoutMs: 1_000, clock })
  const open: Readonly<{
    name: string | undefined
    withinMs: number
    answer: () => void
    fail: (error: Error) => void
  }>[] = []
  const told: string[] = []
  const ask = (owner: string | undefined, name = owner, subject?: string): void => {
    const wait = (withinMs: number) => new Promise<void>((answer, fail) => open.push({ name, withinMs, answer, fail }))
    lane.run(owner, wait, subject).then(
      () => told.push(`${name} answered`),
      (error) => told.push(`${name} ${error.code}`),
    )
  }
  return { clock, lane, open, told, ask }
}

t.test('a question has what is left of its time, and one that waits too long is given up', async (t) => {
  const { clock, open, told, ask } = holdLane(1)
  ask('a', 'first')
  ask('a', 'second')
  ask('a', 'third')
  await clock.pass(400)
  t.same(
    open.map(({ name, withinMs }) => [name, withinMs]),
    [['first', 1_000]],
  )
  open[0]?.answer()
  await clock.pass(0)
  t.same([open[1]?.name, open[1]?.withinMs], ['second', 600])
  await clock.pass(600)
  t.same(told, ['first answered', 'third lookups_busy'])
  open[1]?.answer()
  await clock.pass(0)
  t.equal(open.length, 2, 'and it is not asked any more')
})

t.test('beyond the queue the owner of most questions is refused', async (t) => {
  const { clock, lane, told, ask } = holdLane(1)
  for (let count = 0; count < 1_026; count++) ask('greedy')
  await clock.pass(0)
  t.same([told.length, lane.countWaiting()], [1, 1_024])
  ask('modest')
  await clock.pass(0)
  t.same(told, ['greedy lookups_busy', 'greedy lookups_busy'])
})

t.test('tokens of open exchanges have every other turn, however many addresses guess', async (t) => {
  const { clock, open, told, ask } = holdLane(1)
  for (let count = 0; count < 1_100; count++) ask(`guesser ${count}`)
  for (let count = 0; count < 3; count++) ask(undefined, `recheck ${count}`)
  for (let count = 1_100; count < 2_200; count++) ask(`guesser ${count}`)
  for (let count = 0; count < 5; count++) {
    open.at(-1)?.answer()
    await clock.pass(0)
  }
  t.same(
    open.map(({ name }) => name?.split(' ')[0]),
    ['guesser', 'recheck', 'guesser', 'recheck', 'guesser', 'recheck'],
  )
  t.notOk(told.some((line) => line.startsWith('recheck') && !line.endsWith('answered')))
})

t.test('subjects of open exchanges take turns, and the one with most tokens gives way', async (t) => {
  const { clock, open, told, ask } = holdLane(1)
  for (let count = 0; count < 1_100; count++) ask(undefined, 'greedy', 'greedy')
  ask(undefined, 'modest', 'modest')
  for (let count = 0; count < 2; count++) {
    open.at(-1)?.answer()
    await clock.pass(0)
  }
  t.ok(
    open.some(({ name }) => name === 'modest'),
    'asked within two turns',
  )
  t.same(new Set(told), new Set(['greedy answered', 'greedy lookups_busy']))
})

t.test('an issuer that is silent is asked once a second, and answers end that', async (t) => {
  const { clock, open, told, ask } = holdLane(100)
  const failAll = async (error: Error): Promise<void> => {
    for (const { fail } of open.splice(0)) fail(error)
    await clock.pass(0)
  }
  for (let count = 0; count < 20; count++) ask('a')
  await clock.pass(0)
  await failAll(new UnusableAnswer('a bad answer, which a token may bring about'))
  ask('a')
  await clock.pass(0)
  t.equal(open.length, 1, 'bad answers close nothing')
  for (let count = 0; count < 4; count++) ask('a')
  await clock.pass(0)
  await failAll(new Error('silent'))
  told.length = 0
  for (let count = 0; count < 10; count++) ask('a')
  await clock.pass(0)
  t.same([open.length, new Set(told)], [0, new Set(['a issuer_unavailable'])])
  await clock.pass(1_000)
  for (let count = 0; count < 10; count++) ask('a')
  await clock.pass(0)
  t.equal(open.length, 1, 'one question')
  open.splice(0)[0]?.answer()
  await clock.pass(0)
  for (let count = 0; count < 10; count++) ask('a')
  await clock.pass(0)
  t.equal(open.length, 10)
})

t.test('a text with a member twice is refused at every depth, and no other', async (t) => {
  for (const text of [
    '{"a":1,"a":1}',
    '[{"a":{"b":1,"b":2}}]',
    '{"a":[],"\\u0061":1}',
    '{"":0,"":0}',
    '{"a":"\\"","a":0}',
  ])
    t.throws(() => parseUnambiguous(text, 9), /twice/, text)
  for (const text of [
    '{"a":{"a":1},"b":["a","a"]}',
    '[{"a":1},{"a":1}]',
    '{"a":"a","b":"a,\\"a\\":"}',
    '"a"',
    '{"__proto__":1}',
  ])
    t.same(parseUnambiguous(text, 9), JSON.parse(text), text)
  t.throws(() => parseUnambiguous('[[[]]]', 2), /nested/)
})
