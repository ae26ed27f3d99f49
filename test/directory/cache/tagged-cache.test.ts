import t from 'tap'
import { createFreshness } from '../../../gateway/directory/cache/freshness.ts'
import { createGrace } from '../../../gateway/directory/cache/grace.ts'
import { createTaggedCache, type Load, type ReadResult } from '../../../gateway/directory/cache/tagged-cache.ts'
import type { Tag } from '../../../gateway/directory/change.ts'

type Fact = Readonly<{ text: string; tags: readonly Tag[] }>

const fact = (text: string, ...tags: readonly Tag[]): Fact => ({ text, tags })

const ttlMs = 60_000

const outage = new Error('nothing answers')

/** A cache whose clock and proofs the test holds in its hand. */
function holdCache({ maxEntries = 100, graceMs = 0 } = {}) {
  let nowMs = 1_000_000
  const freshness = createFreshness(() => nowMs)
  const reads: ReadResult[] = []
  const told: string[] = []
  const grace = createGrace({
    graceMs,
    monotonicMs: () => nowMs,
    isOutage: (error) => error === outage,
    onBegin: () => told.push('begun'),
    onEnd: (uses) => told.push(`ended after ${uses}`),
  })
  const cache = createTaggedCache<Fact>({
    maxEntries,
    ttlMs,
    freshness,
    tagsOf: ({ tags }) => tags,
    onRead: (result) => reads.push(result),
    grace,
  })
  return {
    ...cache,
    read: async (...values: Parameters<typeof cache.read>) => cache.read(...values),
    reads,
    told,
    now: () => nowMs,
    prove: freshness.markSynced,
    /** Time without a proof that changes still arrive. */
    passUnproven: (ms: number) => {
      nowMs += ms
    },
    pass: (ms: number) => {
      nowMs += ms
      freshness.markSynced(nowMs)
    },
    /** Puts a fact in. */
    keep: (key: string, value: Fact) => cache.read(key, async () => value),
    /** The text under a key, `again` where it must be loaded. */
    look: async (key: string) => (await cache.read(key, async () => fact('again')))?.text,
  }
}

/** A load that ends when the test says so. */
function holdLoad() {
  let calls = 0
  let settle: Readonly<{ resolve: (value: Fact | undefined) => void; reject: (error: unknown) => void }> | undefined
  const load: Load<Fact> = () => {
    calls++
    return new Promise((resolve, reject) => {
      settle = { resolve, reject }
    })
  }
  return {
    load,
    calls: () => calls,
    resolve: (value?: Fact) => settle?.resolve(value),
    reject: (error: unknown) => settle?.reject(error),
  }
}

const neverLoad: Load<Fact> = () => Promise.reject(new Error('no reader was to load this'))

t.test('a loaded fact is held', async (t) => {
  const { keep, read, reads, pass } = holdCache()
  t.equal((await keep('a', fact('one', 'user:1')))?.text, 'one')
  for (let count = 0; count < 100; count++) {
    pass(500)
    t.equal((await read('a', neverLoad))?.text, 'one')
  }
  t.same(new Set(reads), new Set(['miss', 'hit']))
})

t.test('concurrent misses share one load, each key its own', async (t) => {
  const { read, reads } = holdCache()
  const [one, two] = [holdLoad(), holdLoad()]
  const readers = Array.from({ length: 1_000 }, (_, index) =>
    index % 2 === 0 ? read('a', one.load) : read('b', two.load),
  )
  one.resolve(fact('one'))
  two.resolve(fact('two'))
  const texts = (await Promise.all(readers)).map((value) => value?.text)
  t.same(texts.slice(0, 4), ['one', 'two', 'one', 'two'])
  t.same([one.calls(), two.calls()], [1, 1])
  t.same(
    reads.filter((result) => result === 'miss'),
    ['miss', 'miss'],
  )
  t.equal(reads.filter((result) => result === 'coalesced').length, 998)
})

t.test('nothing is held for longer than its time to live, which begins with the question', async (t) => {
  const { read, look, pass } = holdCache()
  const slow = holdLoad()
  const reader = read('a', slow.load)
  pass(500)
  slow.resolve(fact('one'))
  await reader
  pass(ttlMs - 500)
  t.equal(await look('a'), 'one')
  pass(1)
  t.equal(await look('a'), 'again')
})

t.test('a reader may ask for something younger', async (t) => {
  const { keep, read, pass } = holdCache()
  await keep('a', fact('one'))
  pass(500)
  t.equal((await read('a', neverLoad, { maxAgeMs: 500 }))?.text, 'one')
  pass(1)
  t.equal((await read('a', async () => fact('two'), { maxAgeMs: 500 }))?.text, 'two')
  t.equal((await read('a', neverLoad))?.text, 'two', 'which every reader has from then on')
})

t.test('without a proof that changes arrive nothing is believed for longer than 900 ms', async (t) => {
  const { keep, look, passUnproven } = holdCache()
  await keep('a', fact('one'))
  passUnproven(900)
  t.equal(await look('a'), 'one')
  passUnproven(1)
  t.equal(await look('a'), 'again')
})

t.test('a proof counts from the moment that it speaks of', async (t) => {
  const { keep, look, passUnproven, prove, now } = holdCache()
  await keep('a', fact('one'))
  passUnproven(800)
  prove(now() - 300)
  passUnproven(600)
  t.equal(await look('a'), 'one')
  passUnproven(1)
  t.equal(await look('a'), 'again')
})

t.test('a proof of an earlier moment that comes late takes nothing back', async (t) => {
  const { keep, look, passUnproven, prove, now } = holdCache()
  await keep('a', fact('one'))
  passUnproven(500)
  prove(now())
  prove(now() - 400)
  passUnproven(900)
  t.equal(await look('a'), 'one')
})

t.test('an absence is believed for 900 ms, and a proof does not extend that', async (t) => {
  const { read, look, pass, reads } = holdCache()
  t.equal(await read('a', async () => undefined), undefined)
  pass(900)
  t.equal(await read('a', neverLoad), undefined)
  t.equal(reads.at(-1), 'negative_hit')
  pass(1)
  t.equal(await look('a'), 'again')
})

t.test('an absence is forgotten with every change, whatever it is of', async (t) => {
  const { read, look, drop } = holdCache()
  await read('a', async () => undefined)
  drop('user:99')
  t.equal(await look('a'), 'again')
})

t.test('an absence is remembered under the name that the reader gives it, or not at all', async (t) => {
  const { read, reads } = holdCache()
  await read('a', async () => undefined, { absenceKey: 'a:guess' })
  t.equal(await read('a', neverLoad, { absenceKey: 'a:guess' }), undefined)
  t.equal((await read('a', async () => fact('one'), { absenceKey: 'a:right' }))?.text, 'one')
  t.equal((await read('a', neverLoad, { absenceKey: 'a:guess' }))?.text, 'one', 'and what is there is there for all')
  await read('b', async () => undefined, { absenceKey: null })
  await read('b', async () => undefined, { absenceKey: null })
  t.same(reads, ['miss', 'negative_hit', 'miss', 'hit', 'miss', 'miss'])
  t.equal((await read('b', async () => fact('two')))?.text, 'two')
})

t.test('a guess under way does not answer for another one', async (t) => {
  const { read } = holdCache()
  const [wrong, right] = [holdLoad(), holdLoad()]
  const guess = read('a', wrong.load, { absenceKey: 'a:wrong' })
  // The row comes into being here.
  const rightful = [read('a', right.load, { absenceKey: 'a:right' }), read('a', right.load, { absenceKey: 'a:right' })]
  t.equal(right.calls(), 1)
  wrong.resolve()
  right.resolve(fact('one'))
  t.equal(await guess, undefined)
  t.same(
    (await Promise.all(rightful)).map((value) => value?.text),
    ['one', 'one'],
  )
})

t.test('a flood of absences pushes out nothing that is known, and is bounded itself', async (t) => {
  const { keep, read, reads } = holdCache({ maxEntries: 10 })
  await keep('known', fact('one'))
  for (let index = 0; index < 1_000; index++) await read(`guess-${index}`, async () => undefined)
  t.equal((await read('known', neverLoad))?.text, 'one')
  for (let index = 0; index < 1_000; index++) await read(`guess-${index}`, async () => undefined)
  t.equal(reads.filter((result) => result === 'negative_hit').length, 0, 'the oldest had been dropped')
  t.equal(await read('guess-999', neverLoad), undefined, 'the newest had not')
})

t.test('a change forgets what depends on it, and nothing else', async (t) => {
  const { keep, look, drop, size } = holdCache()
  await keep('a', fact('one', 'user:1', 'organization:1'))
  await keep('b', fact('two', 'user:2', 'organization:1'))
  await keep('c', fact('three', 'user:3', 'organization:2'))
  drop('organization:1')
  t.equal(size(), 1)
  t.same([await look('a'), await look('b'), await look('c')], ['again', 'again', 'three'])
})

t.test('an entry depends on what it was loaded with last', async (t) => {
  const { keep, look, drop, pass } = holdCache()
  await keep('a', fact('one', 'organization:1', 'organization:2'))
  pass(ttlMs + 1)
  await keep('a', fact('two', 'organization:2', 'organization:3'))
  drop('organization:1')
  t.equal(await look('a'), 'two')
  drop('organization:3')
  t.equal(await look('a'), 'again')
})

const forgettings = [
  ['a change', (cache: ReturnType<typeof holdCache>) => cache.drop('user:1')],
  // It is unknown what a load that is under way will depend on.
  ['a change of something else', (cache: ReturnType<typeof holdCache>) => cache.drop('agent:99')],
  ['everything', (cache: ReturnType<typeof holdCache>) => cache.clear()],
] as const

for (const [what, forget] of forgettings) {
  t.test(`a load that ${what} overtakes is neither stored nor shared with those who come later`, async (t) => {
    const cache = holdCache()
    const [before, after] = [holdLoad(), holdLoad()]
    const early = cache.read('a', before.load)
    forget(cache)
    const late = cache.read('a', after.load)
    t.equal(after.calls(), 1)
    before.resolve(fact('old', 'user:1'))
    t.equal((await early)?.text, 'old', 'an earlier reader is answered')
    t.equal(cache.size(), 0)
    const later = cache.read('a', neverLoad)
    after.resolve(fact('new', 'user:1'))
    t.same([(await late)?.text, (await later)?.text], ['new', 'new'], 'the end of the early load ends no sharing')
    t.equal(await cache.look('a'), 'new')
  })

  t.test(`a load that ends in the very moment of ${what} is not stored`, async (t) => {
    const cache = holdCache()
    const slow = holdLoad()
    const early = cache.read('a', slow.load)
    slow.resolve(fact('old', 'user:1'))
    forget(cache)
    await early
    t.equal(await cache.look('a'), 'again')
  })

  t.test(`an absence that ${what} overtakes is not remembered`, async (t) => {
    const cache = holdCache()
    const slow = holdLoad()
    const early = cache.read('a', slow.load)
    forget(cache)
    slow.resolve(undefined)
    await early
    t.equal(await cache.look('a'), 'again')
  })
}

t.test('a late load does not take the place of a younger one', async (t) => {
  const { read, look, drop } = holdCache()
  const slow = holdLoad()
  const early = read('a', slow.load)
  drop('user:1')
  await read('a', async () => fact('new', 'user:1'))
  slow.resolve(fact('old', 'user:1'))
  await early
  t.equal(await look('a'), 'new')
})

t.test('a slow load is shared while changes are heard, and for 900 ms where they are not', async (t) => {
  const { read, pass, passUnproven } = holdCache()
  const slow = holdLoad()
  const first = read('a', slow.load)
  pass(5_000)
  const second = read('a', neverLoad)
  passUnproven(900)
  const third = read('a', neverLoad)
  passUnproven(1)
  t.equal((await read('a', async () => fact('two')))?.text, 'two')
  slow.resolve(fact('one'))
  t.same(
    (await Promise.all([first, second, third])).map((value) => value?.text),
    ['one', 'one', 'one'],
  )
})

t.test('a failure is told to all who share it, and is neither kept nor taken for an absence', async (t) => {
  const { read, look, reads, size } = holdCache()
  const failing = holdLoad()
  const readers = [read('a', failing.load), read('a', failing.load)]
  failing.reject(new Error('the store is down'))
  for (const reader of readers) await t.rejects(reader, /the store is down/)
  await t.rejects(
    read('a', () => {
      throw new Error('at once')
    }),
    /at once/,
  )
  t.equal(size(), 0)
  t.equal(await look('a'), 'again')
  t.same(reads, ['miss', 'coalesced', 'miss', 'miss'])
})

t.test('a failure takes nothing away that is held', async (t) => {
  const { keep, read, pass } = holdCache()
  await keep('a', fact('one'))
  pass(500)
  await t.rejects(
    read('a', () => Promise.reject(new Error('down')), { maxAgeMs: 100 }),
    /down/,
  )
  t.equal((await read('a', neverLoad))?.text, 'one')
})

t.test('a full cache drops what was not read for longest, with what it depended on', async (t) => {
  const { keep, look, read, size, drop } = holdCache({ maxEntries: 3 })
  for (const [index, key] of ['a', 'b', 'c'].entries()) await keep(key, fact(key, `user:${index}`))
  await read('a', neverLoad)
  await keep('d', fact('d', 'user:1'))
  t.equal(size(), 3)
  drop('user:1')
  t.same([await look('a'), await look('c')], ['a', 'c'], 'the tag of the dropped one is that of the new one alone')
  t.equal(await look('b'), 'again')
})

t.test('ten thousand entries leave no more behind than the cache may hold', async (t) => {
  const { keep, size, drop } = holdCache({ maxEntries: 50 })
  for (let index = 0; index < 10_000; index++) await keep(`key-${index}`, fact('x', `user:${index}`, 'organization:1'))
  t.equal(size(), 50)
  drop('organization:1')
  t.equal(size(), 0)
})

const tags = (count: number): readonly Tag[] =>
  Array.from({ length: count }, (_, index): Tag => `organization:${index}`)

t.test('an entry that depends on much takes the room of several', async (t) => {
  const { keep, look, size } = holdCache({ maxEntries: 4 })
  for (const key of ['a', 'b', 'c', 'd']) await keep(key, fact(key, ...tags(8)))
  t.equal(size(), 4)
  await keep('large', fact('large', ...tags(17)))
  t.equal(size(), 2)
  t.same([await look('d'), await look('large')], ['d', 'large'])
})

t.test('an entry too large for the cache is answered and not kept, and neither is what it was before', async (t) => {
  const { keep, look, size, drop, pass } = holdCache({ maxEntries: 4 })
  await keep('a', fact('small', 'user:1'))
  pass(ttlMs + 1)
  await keep('b', fact('other', 'user:2'))
  t.equal((await keep('a', fact('large', ...tags(33))))?.text, 'large')
  t.equal(size(), 1)
  t.equal(await look('b'), 'other', 'it made no room for itself')
  await keep('a', fact('small again', 'user:1'))
  drop('organization:1')
  t.equal(await look('a'), 'small again', 'and left no trace under its tags')
})

t.test('a cleared cache begins anew', async (t) => {
  const { keep, look, read, clear, size, drop } = holdCache()
  await keep('a', fact('one', 'user:1'))
  await keep('b', fact('two', 'user:1'))
  await read('c', async () => undefined)
  clear()
  t.equal(size(), 0)
  t.equal((await keep('c', fact('come')))?.text, 'come', 'what was not there may be there now')
  await keep('a', fact('three', 'user:2'))
  drop('user:1')
  t.equal(await look('a'), 'three')
  drop('user:2')
  t.equal(await look('a'), 'again')
})

t.test('in any order of loads and changes, no reader gets a fact that an earlier change had ended', async (t) => {
  let seed = 20_260_101
  /** Repeatable: a linear congruential generator (Numerical Recipes). */
  const draw = (below: number): number => {
    seed = (seed * 1_664_525 + 1_013_904_223) % 2 ** 32
    return Math.floor((seed / 2 ** 32) * below)
  }
  const { read, drop, clear, pass, reads } = holdCache({ maxEntries: 6 })
  const versions = new Map<string, number>()
  const versionOf = (key: string): number => versions.get(key) ?? 0
  let pending: (() => void)[] = []
  let stale = 0
  const checks: Promise<void>[] = []
  for (let step = 0; step < 20_000; step++) {
    const id = draw(10)
    const key = `key-${id}`
    const action = draw(20)
    if (action < 12) {
      const begun = versionOf(key)
      const load: Load<Fact> = () => {
        // The store is asked at once, and answers whenever it likes.
        const seen = fact(String(versionOf(key)), `user:${id}`)
        return new Promise((resolve) => pending.push(() => resolve(seen)))
      }
      checks.push(
        read(key, load).then((value) => {
          if (Number(value?.text) < begun) stale++
        }),
      )
    } else if (action === 12) {
      versions.set(key, versionOf(key) + 1)
      drop(`user:${id}`)
    } else if (action === 13 && draw(20) === 0) {
      for (let other = 0; other < 10; other++) versions.set(`key-${other}`, versionOf(`key-${other}`) + 1)
      clear()
    } else if (action === 13) pass(100)
    else {
      pending.splice(draw(pending.length), 1)[0]?.()
      // A few turns of the queue or none: a change may come at any moment of a load's way home.
      for (let turns = draw(8); turns > 0; turns--) await undefined
    }
    if (step % 500 === 0) {
      for (const end of pending) end()
      pending = []
      await Promise.all(checks.splice(0))
    }
  }
  for (const end of pending) end()
  await Promise.all(checks)
  t.equal(stale, 0)
  for (const result of ['hit', 'miss', 'coalesced'] as const)
    t.ok(reads.filter((read) => read === result).length > 500, result)
})

const fail = (error: unknown): Load<Fact> => {
  return () => Promise.reject(error)
}

t.test('without a grace an outage is told at once', async (t) => {
  const { keep, passUnproven, read } = holdCache()
  await keep('a', fact('a'))
  passUnproven(901)
  await t.rejects(read('a', fail(outage)), outage)
})

t.test('within the grace what was known stands in, loudly, and others need not wait', async (t) => {
  const { keep, passUnproven, read, reads, told, look } = holdCache({ graceMs: 10_000 })
  await keep('a', fact('a'))
  await keep('b', fact('b'))
  passUnproven(901)
  t.equal((await read('a', fail(outage)))?.text, 'a')
  const { load, calls } = holdLoad()
  t.equal((await read('b', load))?.text, 'b', 'nothing is asked')
  t.equal(calls(), 0)
  await t.rejects(read('unknown', fail(outage)), outage)
  t.same(reads.slice(-4), ['miss', 'grace', 'grace', 'miss'])
  t.same(told, ['begun'])
  passUnproven(1_001)
  t.equal(await look('a'), 'again')
  t.same(told, ['begun', 'ended after 2'])
})

t.test('one reader a second tries the store, and the others do not wait for it', async (t) => {
  const { keep, passUnproven, read } = holdCache({ graceMs: 10_000 })
  for (const key of ['a', 'b', 'c']) await keep(key, fact(key))
  passUnproven(901)
  await read('a', fail(outage))
  passUnproven(1_001)
  const held = holdLoad()
  const trial = read('a', held.load)
  t.equal((await read('b', held.load))?.text, 'b')
  t.equal((await read('c', held.load))?.text, 'c')
  t.equal(held.calls(), 1)
  held.reject(outage)
  t.equal((await trial)?.text, 'a')
})

t.test('the grace ends, counted from when a fact was last known to be true', async (t) => {
  const { keep, pass, passUnproven, read } = holdCache({ graceMs: 10_000 })
  await keep('a', fact('a'))
  pass(5_000)
  passUnproven(9_999)
  t.equal((await read('a', fail(outage)))?.text, 'a')
  passUnproven(2)
  await t.rejects(read('a', fail(outage)), outage)
})

t.test('a changed fact does not stand in, even if its change arrives while the store is tried', async (t) => {
  const { keep, passUnproven, read, drop } = holdCache({ graceMs: 10_000 })
  await keep('a', fact('a', 'user:1'))
  await keep('b', fact('b', 'user:2'))
  passUnproven(901)
  drop('user:1')
  await t.rejects(read('a', fail(outage)), outage)
  passUnproven(1_001)
  const held = holdLoad()
  const trial = read('b', held.load)
  drop('user:2')
  held.reject(outage)
  await t.rejects(trial, outage)
})

t.test('a store that answers with a refusal is not out', async (t) => {
  const { keep, passUnproven, read } = holdCache({ graceMs: 10_000 })
  await keep('a', fact('a'))
  passUnproven(901)
  const refusal = new Error('a right is missing')
  await t.rejects(read('a', fail(refusal)), refusal)
})

t.test('a fact from a server without proofs is believed for 0.9 s from its question, and no longer', async (t) => {
  let nowMs = 0
  const freshness = createFreshness(() => nowMs)
  freshness.restrict()
  nowMs += 500
  freshness.markSynced(nowMs)
  t.ok(freshness.isFresh(0, ttlMs))
  nowMs += 401
  freshness.markSynced(nowMs)
  t.notOk(freshness.isFresh(0, ttlMs), 'asked for before the foreign answer')
  t.ok(freshness.isFresh(1, ttlMs), 'asked for after it')
})
