import t from 'tap'
import { GatewayError } from '../../../gateway/base/errors/gateway-error.ts'
import type { TokenRecord } from '../../../gateway/directory/directory.ts'
import { createTokenLane } from '../../../gateway/directory/lookups/token-lane.ts'
import { Turns } from '../../../gateway/rights/turns.ts'
import { until } from '../../support/gateway.ts'

const hashOf = (id: number): string => id.toString(16).padStart(64, '0')

const tokenOf = (id: number): TokenRecord => ({
  ...{ id, name: null, abilities: [], lastUsedAt: null, expiresAt: null, createdAt: null },
  ...{ hash: hashOf(id), ancestors: [] },
  user: {
    ...{ id, email: '', emailVerified: false, username: null, firstName: null, lastName: null, fullName: null },
    ...{ userType: 'client-managed', currentOrganizationId: null, roles: [] },
  },
})

/** Only even ids exist. */
const exists = (id: number): boolean => id % 2 === 0

/** A lane whose questions are answered when the test says so. */
async function openLane(width: number, batchSize: number, maxWaiting: number) {
  const questions: Readonly<{ ids: readonly number[]; answer: () => void; fail: (error: unknown) => void }>[] = []
  const whole: number[] = []
  const together: (readonly number[])[] = []
  let [under, most] = [0, 0]
  let nowMs = 0
  const lane = createTokenLane({
    width,
    batchSize,
    maxWaiting,
    monotonicMs: () => nowMs,
    findToken: async (id) => {
      whole.push(id)
      return exists(id) ? tokenOf(id) : undefined
    },
    findTokens: async (ids) => {
      whole.push(...ids)
      together.push(ids)
      return new Map(ids.filter(exists).map((id) => [id, tokenOf(id)]))
    },
    findHashes: (ids) => {
      under += 1
      most = Math.max(most, under)
      const asked = new Promise<ReadonlyMap<number, string>>((resolve, reject) => {
        const rows = new Map(ids.filter(exists).map((id) => [id, hashOf(id)]))
        questions.push({ ids, answer: () => resolve(rows), fail: reject })
      })
      return asked.finally(() => {
        under -= 1
      })
    },
  })
  const confirm = (id: number, hash: string, owner: string) =>
    lane.find(id, hash, owner).then((token) => typeof token === 'object' && token.id === id)
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  const pass = (ms: number): void => {
    nowMs += ms
  }
  return { ...lane, confirm, questions, whole, together, turn, pass, most: () => most }
}

/** Makes a first guess; from then on the lane asks for hashes alone. */
async function openSuspiciousLane(width: number, batchSize: number, maxWaiting: number) {
  const opened = await openLane(width, batchSize, maxWaiting)
  await opened.confirm(1, hashOf(1), 'first')
  opened.whole.length = 0
  opened.pass(10)
  return opened
}

t.test('without guesses a token takes one question', async (t) => {
  const { confirm, questions, whole, pass } = await openLane(1, 64, 10)
  t.equal(await confirm(2, hashOf(2), 'a'), true)
  t.equal(await confirm(4, hashOf(2), 'a'), false)
  t.same([whole, questions.length], [[2, 4], 0])
  pass(10)
  const next = confirm(6, hashOf(6), 'a')
  t.same([questions.length, whole], [1, [2, 4]], 'and two after a guess')
  questions[0]?.answer()
  t.equal(await next, true)
  t.same(whole, [2, 4, 6])
  pass(1_000)
  t.equal(await confirm(8, hashOf(8), 'a'), true)
  t.equal(questions.length, 1, 'one again a second later')
})

t.test('without guesses tokens that come together take one question, until one of them is a guess', async (t) => {
  const { confirm, questions, together, pass } = await openLane(1, 64, 10)
  const claim = (ids: readonly number[]) => Promise.all(ids.map((id) => confirm(id, hashOf(id), `a${id}`)))
  t.same(await claim([2, 4, 6, 8]), [true, true, true, true])
  t.same([together, questions.length], [[[4, 6, 8]], 0], 'the first is asked for at once')
  t.same(await claim([10, 12, 13, 14]), [true, true, false, true])
  t.same(together, [
    [4, 6, 8],
    [12, 13, 14],
  ])
  pass(10)
  const claims = claim([16, 18])
  questions[0]?.answer()
  await until(() => {
    pass(10)
    return questions.length === 2
  }, 'another question for hashes')
  questions[1]?.answer()
  t.same(await claims, [true, true])
  t.equal(together.length, 2, 'no user is read for a guess')
})

t.test('a claim is right where the token is there and has that hash', async (t) => {
  const { confirm, questions, whole, pass } = await openSuspiciousLane(4, 1, 10)
  const claims = [2, 2, 3, 4].map((id, index) => {
    pass(10)
    return confirm(id, ['', hashOf(4), hashOf(3), hashOf(4)][index] ?? '', 'a')
  })
  for (const { answer } of questions) answer()
  t.same(await Promise.all(claims), [false, false, false, true])
  t.same(whole, [4], 'a guess leads to no account')
})

t.test('a wrong secret is told from an unknown id, whether asked alone or among others', async (t) => {
  const { find, questions, whole, turn, pass } = await openLane(1, 64, 10)
  t.equal(await find(2, hashOf(3), 'a'), 'wrong-secret')
  pass(1_000)
  t.equal(await find(3, hashOf(3), 'a'), undefined)
  t.same([whole, questions.length], [[2, 3], 0], 'each costs one question, so that no time tells them apart')
  await turn()
  const claims = [find(2, hashOf(3), 'a'), find(3, hashOf(3), 'b'), find(4, hashOf(4), 'c')]
  pass(10)
  await until(() => questions.length === 1, 'a question for all')
  questions[0]?.answer()
  t.match(await Promise.all(claims), ['wrong-secret', undefined, { id: 4 }])
})

t.test('a flood of one address keeps another waiting for one question of each connection, and no longer', async (t) => {
  const { confirm, questions, turn, pass, most } = await openSuspiciousLane(2, 8, 10_000)
  for (let id = 1; id <= 5_000; id++) confirm(id, hashOf(0), 'attacker').catch(() => undefined)
  pass(10)
  await until(() => questions.length === 2, 'as many questions as the lane is wide')
  const honest = confirm(1_000_000, hashOf(1_000_000), 'honest')
  questions[0]?.answer()
  await turn()
  t.equal(questions.length, 2, 'the next question waits for its time')
  pass(10)
  await until(() => questions.length === 3, 'a third question')
  t.ok(questions[2]?.ids.includes(1_000_000), 'the very next question has it')
  questions[2]?.answer()
  t.equal(await honest, true)
  t.equal(most(), 2)
  // The lane waits for no pace any more, and the process can end.
  pass(1_000)
})

t.test('claims that come together go into one question', async (t) => {
  const { confirm, questions, turn, pass } = await openSuspiciousLane(1, 64, 10_000)
  const claims = Array.from({ length: 641 }, (_, index) => confirm(index, hashOf(index), `a${index % 7}`))
  for (let asked = 0; asked < 11; asked++) {
    pass(10)
    await until(() => questions.length > asked, 'the next question')
    questions[asked]?.answer()
    await turn()
  }
  t.equal((await Promise.all(claims)).filter(Boolean).length, 321)
  t.equal(questions.length, 11, 'one, and ten of 64')
})

t.test('without room the owner with most waiting tokens is turned away', async (t) => {
  const { confirm, countWaiting } = await openSuspiciousLane(1, 1, 4)
  const turned: string[] = []
  const ask = (owner: string, id: number) =>
    confirm(id, hashOf(0), owner).catch((error: unknown) => {
      turned.push(`${owner}${id} ${error instanceof GatewayError ? error.code : error}`)
    })
  for (let id = 0; id < 6; id++) void ask('greedy', id)
  void ask('honest', 7)
  void ask('other', 8)
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(countWaiting(), 4)
  t.same(turned, ['greedy5 lookups_busy', 'greedy4 lookups_busy', 'greedy3 lookups_busy'])
})

t.test('a question that fails fails all that wait, and the next one is asked anew', async (t) => {
  const { confirm, questions, pass } = await openSuspiciousLane(1, 1, 10)
  const claims = [1, 2, 3].map((id) => confirm(id, hashOf(id), 'a').catch((error: Error) => error.message))
  questions[0]?.fail(new Error('down'))
  t.same(await Promise.all(claims), ['down', 'down', 'down'])
  pass(10)
  const next = confirm(2, hashOf(2), 'a')
  await until(() => questions.length === 2, 'the next question')
  questions[1]?.answer()
  t.equal(await next, true)
})

t.test('turns go round, whatever comes and goes', async (t) => {
  const turns = new Turns<string>({ mostWaiting: 100 })
  for (const item of ['a1', 'a2', 'a3', 'b1', 'c1', 'c2']) turns.push(item.charAt(0), item)
  t.same(turns.take(4), ['a1', 'b1', 'c1', 'a2'])
  turns.push('b', 'b2')
  t.same(turns.take(10), ['c2', 'a3', 'b2'])
  t.equal(turns.size, 0)
  t.same(turns.take(1), [])
  // Against the simplest thing that could be right.
  const held = new Map<string, number>()
  let state = 7
  const random = (below: number): number => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return state % below
  }
  for (let step = 0; step < 5_000; step++) {
    if (random(3) > 0) {
      const owner = `o${random(random(2) === 0 ? 3 : 40)}`
      const longest = Math.max(0, ...held.values())
      const isFull = turns.size === 100
      const dropped = turns.push(owner, owner)
      t.equal(dropped !== undefined, isFull)
      held.set(owner, (held.get(owner) ?? 0) + 1)
      if (dropped === undefined) continue
      const left = held.get(dropped) ?? 0
      if (left < longest) t.fail('not the longest')
      held.set(dropped, left - 1)
    } else for (const owner of turns.take(random(9))) held.set(owner, (held.get(owner) ?? 0) - 1)
    const sum = [...held.values()].reduce((all, count) => all + count, 0)
    if (sum !== turns.size) t.fail('lost one')
  }
})
