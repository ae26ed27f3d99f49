import t from 'tap'
import { createSigner, createTestStore, holdKeySet, proveToken } from '../../../support/key-set.ts'

const [first, second] = await Promise.all([createSigner('first'), createSigner('second')])

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** The shortest time between two fetches. */
/** Whether fetches of which all failed came no sooner than after 1, 2, 4, 8, 16 and then 30 s. */
const isBackedOff = (fetchedAtMs: readonly number[]): boolean =>
  fetchedAtMs.slice(1).every((atMs, index) => atMs - (fetchedAtMs[index] ?? 0) >= Math.min(30_000, 1_000 * 2 ** index))

t.test('a known key asks the issuer nothing', async (t) => {
  const { keys, judge, clock, fetches } = holdKeySet([first.jwk])
  await keys.refresh()
  for (let count = 0; count < 100; count++) {
    await clock.pass(300)
    t.equal(await judge(await first.sign()), 'accepted')
  }
  t.equal(fetches(), 1)
})

t.test('before the first fetch a token fetches the keys itself', async (t) => {
  const { judge, fetches } = holdKeySet([first.jwk])
  t.equal(await judge(await first.sign()), 'accepted')
  t.equal(fetches(), 1)
})

t.test('keys are fetched anew in the background, at the interval that is configured', async (t) => {
  const { keys, clock, fetches } = holdKeySet([first.jwk], { refreshMs: 5_000 })
  await keys.refresh()
  await clock.pass(4_999)
  t.equal(fetches(), 1)
  await clock.pass(1)
  t.equal(fetches(), 2)
  await clock.pass(hourMs)
  t.equal(fetches(), 2 + hourMs / 5_000)
})

t.test('an interval longer than keys live does not let them die of it', async (t) => {
  const { keys, clock } = holdKeySet([first.jwk], { refreshMs: hourMs, maxStaleMs: minuteMs })
  await keys.refresh()
  for (let count = 0; count < 100; count++) {
    await clock.pass(7_000)
    t.equal(keys.version(), 1)
  }
})

t.test('stopping calls the next fetch off', async (t) => {
  const { keys, clock, stop } = holdKeySet([first.jwk])
  await keys.refresh()
  t.equal(clock.timers(), 1)
  stop()
  t.equal(clock.timers(), 0)
})

t.test('once it is stopped nothing is fetched, and no timer is left', async (t) => {
  const { keys, issuer, clock, events, judge, fetches, stop } = holdKeySet([first.jwk], { refreshMs: 5_000 })
  await keys.refresh()
  issuer.door.isHeld = true
  await clock.pass(5_000)
  t.equal(fetches(), 2)
  stop()
  issuer.keys = [second.jwk]
  issuer.door.open()
  await clock.pass(hourMs)
  t.equal(await judge(await second.sign()), 'issuer_unavailable', 'nor for an unknown key')
  t.equal(fetches(), 2)
  t.equal(clock.timers(), 0)
  t.same(events, [{ kind: 'fetched' }], 'what was under way is not told any more')
  t.equal(await judge(await first.sign()), 'accepted', 'keys in hand go on')
})

t.test('an unknown key triggers one fetch, which finds a key that was just published', async (t) => {
  const { issuer, keys, judge, fetches } = holdKeySet([first.jwk])
  await keys.refresh()
  issuer.keys = [first.jwk, second.jwk]
  t.equal(await judge(await second.sign()), 'accepted')
  t.equal(fetches(), 2)
})

t.test('many tokens of an unknown key wait for one shared fetch', async (t) => {
  const { issuer, keys, judge, clock, fetches } = holdKeySet([first.jwk])
  await keys.refresh()
  issuer.keys = [first.jwk, second.jwk]
  issuer.door.isHeld = true
  const token = await second.sign()
  const verdicts = Promise.all(Array.from({ length: 200 }, () => judge(token)))
  await clock.pass(100)
  t.equal(await judge(await first.sign()), 'accepted', 'a known key does not wait for it')
  issuer.door.open()
  t.same(new Set(await verdicts), new Set(['accepted']))
  t.equal(fetches(), 2)
})

t.test('a key that a fetch under way was too early for has a fetch of its own', async (t) => {
  const { issuer, keys, judge, clock, fetches } = holdKeySet([first.jwk], { refreshMs: 5_000 })
  await keys.refresh()
  issuer.door.isHeld = true
  await clock.pass(5_000)
  const verdict = judge(await second.sign())
  await clock.pass(100)
  t.equal(fetches(), 2)
  let answers = 0
  Object.defineProperty(issuer, 'keys', { get: () => (answers++ === 0 ? [first.jwk] : [first.jwk, second.jwk]) })
  issuer.door.open()
  t.equal(await verdict, 'accepted')
  t.equal(fetches(), 3)
})

/** Tokens of as many different unknown keys, with a signature over nothing. */
async function composeStrangers(count: number): Promise<readonly string[]> {
  const [, payload, signature] = (await first.sign()).split('.')
  return Array.from({ length: count }, (_, index) => {
    const header = Buffer.from(JSON.stringify({ alg: 'ES256', kid: `unknown-${index}` })).toString('base64url')
    return `${header}.${payload}.${signature}`
  })
}

t.test('10,000 unknown key ids at once make one fetch', async (t) => {
  const { keys, judge, fetches } = holdKeySet([first.jwk])
  await keys.refresh()
  const tokens = await composeStrangers(10_000)
  t.same(new Set(await Promise.all(tokens.map(judge))), new Set(['unauthenticated']))
  t.equal(fetches(), 2)
})

t.test('10,000 unknown key ids within a minute make two fetches', async (t) => {
  const { issuer, keys, judge, clock, fetches } = holdKeySet([first.jwk])
  await keys.refresh()
  await clock.pass(40_000)
  issuer.fetchedAtMs.length = 0
  const tokens = await composeStrangers(10_000)
  for (let second = 0; second < 60; second++) {
    const burst = tokens.slice((second * tokens.length) / 60, ((second + 1) * tokens.length) / 60)
    t.same(new Set(await Promise.all(burst.map(judge))), new Set(['unauthenticated']))
    await clock.pass(1_000)
  }
  t.equal(fetches(), 2, 'at once, and after 30 s')
})

t.test('for the sake of unknown keys the issuer is asked at most once in 30 s', async (t) => {
  const { keys, judge, clock, fetches } = holdKeySet([first.jwk])
  await keys.refresh()
  const stranger = await first.sign('nobody')
  t.equal(await judge(stranger), 'unauthenticated')
  t.equal(fetches(), 2, 'at once')
  for (let count = 0; count < 30; count++) {
    await clock.pass(count === 29 ? 999 : 1_000)
    t.equal(await judge(stranger), 'unauthenticated')
  }
  t.equal(fetches(), 2, 'not before 30 s have passed')
  await clock.pass(1)
  t.equal(await judge(stranger), 'unauthenticated')
  t.equal(fetches(), 3, 'and then again')
})

t.test('an issuer down for an hour is asked again after 1 s, then less often, and known keys go on', async (t) => {
  for (const refreshMs of [1_000, 5_000, 300_000]) {
    const { issuer, keys, judge, judgeInTime, clock } = holdKeySet([first.jwk], { refreshMs })
    await keys.refresh()
    issuer.isDown = true
    issuer.fetchedAtMs.length = 0
    const [known, strangers] = [await first.sign(), await composeStrangers(3)]
    const verdicts = new Set<string>()
    for (let second = 0; second < 3_600; second++) {
      for (const stranger of strangers) verdicts.add(JSON.stringify(await judgeInTime(stranger)))
      if (second % 60 === 0) t.equal(await judge(known), 'accepted')
      await clock.pass(1_000)
    }
    t.same([...verdicts], ['{"verdict":"issuer_unavailable","tookMs":0}'])
    const [failedAtMs = 0, nextAtMs = 0] = issuer.fetchedAtMs
    t.ok(nextAtMs - failedAtMs <= 2_000, `refresh ${refreshMs}: ${nextAtMs - failedAtMs} ms`)
    t.ok(isBackedOff(issuer.fetchedAtMs), `refresh ${refreshMs}`)
    t.ok(issuer.fetchedAtMs.length >= 119, 'and it is asked again each time')
    issuer.isDown = false
    await clock.pass(30_000)
    t.equal(await judge(strangers[0] ?? ''), 'unauthenticated', 'it is back within 30 s')
    t.ok((keys.ageMs() ?? 0) <= 30_000)
  }
})

t.test('an issuer that hangs is asked no more often than one that refuses', async (t) => {
  const { issuer, keys, judge, judgeInTime, clock } = holdKeySet([first.jwk], { refreshMs: 1_000 })
  await keys.refresh()
  issuer.fetchedAtMs.length = 0
  issuer.isDown = true
  issuer.door.isHeld = true
  const [known, stranger] = [await first.sign(), await first.sign('nobody')]
  for (let count = 0; count < 200; count++) {
    const { verdict, tookMs } = await judgeInTime(stranger)
    t.equal(verdict, 'issuer_unavailable')
    t.ok(tookMs < 1_000, `${tookMs} ms`)
    t.equal(await judge(known), 'accepted')
    // As `fetch-keys.ts` does after five seconds.
    const [sinceMs] = issuer.fetchedAtMs.slice(-1)
    if (sinceMs !== undefined && clock.monotonicMs() - sinceMs >= 5_000) {
      issuer.door.open()
      issuer.door.isHeld = true
    }
    await clock.pass(1_000)
  }
  t.ok(issuer.fetchedAtMs.length > 5)
  t.ok(isBackedOff(issuer.fetchedAtMs))
})

t.test('a start before the issuer tries again after 1, 2, 4, 8, 16 and then 30 s, whatever asks', async (t) => {
  for (const strangersASecond of [0, 5]) {
    const { issuer, keys, judge, clock, fetches } = holdKeySet([first.jwk])
    issuer.isDown = true
    const startedMs = clock.monotonicMs()
    await keys.refresh()
    const token = await first.sign()
    for (let second = 0; second < 125; second++) {
      for (let count = 0; count < strangersASecond; count++) t.equal(await judge(token), 'issuer_unavailable')
      await clock.pass(1_000)
    }
    t.same(
      issuer.fetchedAtMs.map((atMs) => (atMs - startedMs) / 1_000),
      [0, 1, 3, 7, 15, 31, 61, 91, 121],
    )
    issuer.isDown = false
    await clock.pass(30_000)
    t.equal(await judge(token), 'accepted', 'without a request for it')
    t.equal(fetches(), 10)
  }
})

t.test('keys that have grown too old bring no hurry back', async (t) => {
  const { issuer, keys, judge, clock } = holdKeySet([first.jwk], { refreshMs: 1_000, maxStaleMs: 45_000 })
  await keys.refresh()
  issuer.isDown = true
  issuer.fetchedAtMs.length = 0
  const token = await first.sign()
  for (let second = 0; second < 300; second++) {
    await clock.pass(1_000)
    await judge(token)
  }
  t.equal(await judge(token), 'issuer_unavailable')
  t.ok(isBackedOff(issuer.fetchedAtMs))
})

t.test(
  'a request waits less than a second for an issuer that hangs, and the fetch goes on for the others',
  async (t) => {
    const { issuer, keys, judge, judgeInTime, clock, fetches } = holdKeySet([first.jwk])
    await keys.refresh()
    issuer.keys = [first.jwk, second.jwk]
    issuer.door.isHeld = true
    const token = await second.sign()
    t.same(await judgeInTime(token), { verdict: 'issuer_unavailable', tookMs: 800 })
    await clock.pass(1_000)
    t.same(await judgeInTime(token), { verdict: 'issuer_unavailable', tookMs: 800 }, 'each has its own patience')
    const late = judge(token)
    issuer.door.open()
    t.equal(await late, 'accepted')
    t.equal(fetches(), 2)
  },
)

t.test('a fetch that never ends leaves nothing behind of those who gave up', async (t) => {
  const { issuer, keys, judge, clock } = holdKeySet([first.jwk])
  issuer.door.isHeld = true
  void keys.refresh()
  const tokens = await composeStrangers(1_000)
  const verdicts = Promise.all(tokens.map(judge))
  await clock.pass(799)
  t.equal(clock.timers(), 1_000)
  await clock.pass(1)
  t.same(new Set(await verdicts), new Set(['issuer_unavailable']))
  t.equal(clock.timers(), 0)
})

t.test('a key published within the 30 s is found by the next refresh in the background', async (t) => {
  const { issuer, keys, judge } = holdKeySet([first.jwk])
  await keys.refresh()
  t.equal(await judge(await first.sign('nobody')), 'unauthenticated')
  issuer.keys = [first.jwk, second.jwk]
  t.equal(await judge(await second.sign()), 'unauthenticated')
  await keys.refresh()
  t.equal(await judge(await second.sign()), 'accepted')
})

t.test('an unknown key while the issuer is down is 503, not 401', async (t) => {
  const { issuer, keys } = holdKeySet([first.jwk])
  await keys.refresh()
  issuer.isDown = true
  await t.rejects(proveToken(await second.sign(), keys.findKey), {
    code: 'issuer_unavailable',
    status: 503,
  })
})

t.test('an issuer that was never reached gives 503', async (t) => {
  const { issuer, judge } = holdKeySet([first.jwk])
  issuer.isDown = true
  t.equal(await judge(await first.sign()), 'issuer_unavailable')
  t.equal(await judge(await first.sign()), 'issuer_unavailable')
})

t.test('once the issuer is back an unknown key is 401 again', async (t) => {
  const { issuer, keys, judge, events } = holdKeySet([first.jwk])
  await keys.refresh()
  issuer.isDown = true
  t.equal(await keys.refresh(), false)
  t.equal(await judge(await second.sign()), 'issuer_unavailable')
  issuer.isDown = false
  t.equal(await keys.refresh(), true)
  t.equal(await judge(await second.sign()), 'unauthenticated')
  t.same(
    events.slice(0, 3).map(({ kind }) => kind),
    ['fetched', 'fetch-failed', 'fetched'],
    'each is told',
  )
})

t.test('a bad signature under a known key is 401 even while the issuer is down', async (t) => {
  const { issuer, keys, judge } = holdKeySet([first.jwk])
  await keys.refresh()
  issuer.isDown = true
  await keys.refresh()
  t.equal(await judge(await second.sign('first')), 'unauthenticated')
})

t.test('known keys go on while the issuer is down, up to maxStaleMs', async (t) => {
  const { issuer, keys, judge, clock } = holdKeySet([first.jwk], { maxStaleMs: minuteMs })
  await keys.refresh()
  issuer.isDown = true
  await clock.pass(minuteMs)
  t.equal(await judge(await first.sign()), 'accepted')
  await clock.pass(1)
  t.equal(await judge(await first.sign()), 'issuer_unavailable')
})

t.test('keys that were too old come back to life with the issuer', async (t) => {
  const { issuer, keys, judge, clock } = holdKeySet([first.jwk], { maxStaleMs: minuteMs })
  await keys.refresh()
  issuer.isDown = true
  await clock.pass(hourMs)
  t.equal(await judge(await first.sign()), 'issuer_unavailable')
  issuer.isDown = false
  await clock.pass(30_000)
  t.equal(await judge(await first.sign()), 'accepted')
})

t.test('a failed refresh does not make known keys younger', async (t) => {
  const { issuer, keys, judge, clock } = holdKeySet([first.jwk], { maxStaleMs: minuteMs })
  await keys.refresh()
  issuer.isDown = true
  for (let count = 0; count < 10; count++) {
    await clock.pass(minuteMs / 10)
    await keys.refresh()
  }
  t.equal(keys.ageMs(), minuteMs)
  await clock.pass(1)
  t.equal(await judge(await first.sign()), 'issuer_unavailable')
})

t.test('a withdrawn key dies at the next good refresh', async (t) => {
  const { issuer, keys, judge, clock } = holdKeySet([first.jwk, second.jwk], { refreshMs: 5_000 })
  await keys.refresh()
  issuer.keys = [second.jwk]
  issuer.isDown = true
  await clock.pass(5_000)
  t.equal(await judge(await first.sign()), 'accepted', 'not at a failed one')
  issuer.isDown = false
  await clock.pass(30_000)
  t.equal(await judge(await first.sign()), 'unauthenticated')
  t.equal(await judge(await second.sign()), 'accepted')
})

t.test('a key replaced under its own id dies with the refresh', async (t) => {
  const { issuer, keys, judge } = holdKeySet([first.jwk])
  await keys.refresh()
  issuer.keys = [{ ...second.jwk, kid: 'first' }]
  await keys.refresh()
  t.equal(await judge(await first.sign()), 'unauthenticated')
  t.equal(await judge(await second.sign('first')), 'accepted')
})

t.test('an empty key set withdraws every key', async (t) => {
  const { issuer, keys, judge } = holdKeySet([first.jwk])
  await keys.refresh()
  issuer.keys = []
  await keys.refresh()
  t.equal(await judge(await first.sign()), 'unauthenticated')
})

t.test('refreshes at the same time share one fetch', async (t) => {
  const { issuer, keys, fetches } = holdKeySet([first.jwk])
  issuer.door.isHeld = true
  const both = Promise.all([keys.refresh(), keys.refresh()])
  issuer.door.open()
  t.same(await both, [true, true])
  t.equal(fetches(), 1)
})

t.test('the age is that of the last good fetch, and unknown before it', async (t) => {
  const { keys, clock } = holdKeySet([first.jwk])
  t.equal(keys.ageMs(), undefined)
  await keys.refresh()
  await clock.pass(5)
  t.equal(keys.ageMs(), 5)
})

t.test('the version changes with the usable keys, and with nothing else', async (t) => {
  const { issuer, keys } = holdKeySet([first.jwk, second.jwk])
  const seen: (number | undefined)[] = []
  const see = async (published: readonly unknown[]): Promise<number | undefined> => {
    issuer.keys = published
    await keys.refresh()
    const version = keys.version()
    seen.push(version)
    return version
  }
  t.equal(keys.version(), undefined, 'before there are keys')
  const start = await see([first.jwk, second.jwk])
  t.type(start, 'number')
  t.equal(await see([first.jwk, second.jwk]), start, 'the same keys')
  t.equal(await see([second.jwk, first.jwk]), start, 'in another order')
  t.equal(await see([second.jwk, { kty: 'oct', k: 'AA' }, first.jwk, null]), start, 'beside what cannot be used')
  t.equal(await see([{ ...first.jwk, x5c: ['AA'], unknown: 1 }, second.jwk]), start, 'with members that do not count')
  issuer.isDown = true
  await keys.refresh()
  t.equal(keys.version(), start, 'a failed fetch')
  issuer.isDown = false
  const fewer = await see([first.jwk])
  t.not(fewer, start, 'a key withdrawn')
  const renamed = await see([{ ...first.jwk, kid: 'renamed' }])
  t.not(renamed, fewer, 'a key under another id')
  const replaced = await see([{ ...second.jwk, kid: 'renamed' }])
  t.not(replaced, renamed, 'another key under that id')
  t.equal(await see([]), undefined, 'no keys')
  const back = await see([first.jwk, second.jwk])
  const numbers = [start, fewer, renamed, replaced, back]
  t.equal(new Set(numbers).size, numbers.length, 'no number comes twice, not even for keys that come back')
})

t.test('keys that are too old have no version', async (t) => {
  const { issuer, keys, clock } = holdKeySet([first.jwk], { maxStaleMs: minuteMs })
  await keys.refresh()
  const version = keys.version()
  issuer.isDown = true
  await clock.pass(minuteMs)
  t.equal(keys.version(), version)
  await clock.pass(1)
  t.equal(keys.version(), undefined)
  issuer.isDown = false
  await keys.refresh()
  t.equal(keys.version(), version, 'the same keys are the same set')
})

/** The time at which the simulated clock starts. */
const startedAt = Date.parse('2031-02-03T04:05:06Z')

/** Stores the keys of an earlier process. */
const leave = (keys: unknown, at = startedAt) => createTestStore({ keys, fetchedAt: new Date(at) })

t.test('a start during an outage serves the stored keys', async (t) => {
  const { issuer, keys, judge, events } = holdKeySet([], { store: leave([first.jwk]) })
  issuer.isDown = true
  await keys.refresh()
  t.equal(await judge(await first.sign()), 'accepted')
  t.equal(await judge(await second.sign()), 'issuer_unavailable', 'an unknown key stays unknown')
  t.equal(await judge(await second.sign('first')), 'unauthenticated')
  t.equal(keys.version(), 1)
  t.match(
    events.find(({ kind }) => kind === 'recalled'),
    { ageMs: 0 },
  )
})

t.test('with stored keys in hand a failing issuer is asked after 1, 2, 4, 8, 16 and then 30 s as well', async (t) => {
  for (const readingMs of [0, 500]) {
    const store = leave([first.jwk])
    store.door.isHeld = true
    const { issuer, keys, clock } = holdKeySet([], { store })
    issuer.isDown = true
    const startedMs = clock.monotonicMs()
    void keys.refresh()
    await clock.pass(readingMs)
    store.door.open()
    await clock.pass(100_000)
    t.same(
      issuer.fetchedAtMs.map((atMs) => (atMs - startedMs) / 1_000),
      [0, 1, 3, 7, 15, 31, 61, 91],
      `read after ${readingMs} ms`,
    )
  }
})

t.test('the first good fetch takes the place of the stored keys', async (t) => {
  const { issuer, keys, judge, clock } = holdKeySet([second.jwk], { store: leave([first.jwk]) })
  issuer.isDown = true
  await keys.refresh()
  t.equal(await judge(await first.sign()), 'accepted')
  issuer.isDown = false
  await clock.pass(30_000)
  t.equal(await judge(await first.sign()), 'unauthenticated')
  t.equal(await judge(await second.sign()), 'accepted')
})

t.test('a store that is read after the first good fetch brings no withdrawn key back', async (t) => {
  const store = leave([first.jwk])
  store.door.isHeld = true
  const { keys, judge, clock } = holdKeySet([second.jwk], { store })
  await keys.refresh()
  t.equal(await judge(await first.sign()), 'unauthenticated', 'no request waits for the store any more')
  store.door.open()
  await clock.pass(0)
  t.equal(await judge(await first.sign()), 'unauthenticated')
  t.equal(keys.version(), 1)
})

t.test('a request that comes before the store was read waits for it, and not for the issuer', async (t) => {
  const store = leave([first.jwk])
  store.door.isHeld = true
  const { issuer, keys, judge, clock } = holdKeySet([], { store })
  issuer.door.isHeld = true
  void keys.refresh()
  const verdict = judge(await first.sign())
  await clock.pass(700)
  store.door.open()
  t.equal(await verdict, 'accepted')
})

t.test('a request waits for the store alone where the issuer has refused already', async (t) => {
  const store = leave([first.jwk])
  store.door.isHeld = true
  const { issuer, keys, judge, clock } = holdKeySet([], { store })
  issuer.isDown = true
  void keys.refresh()
  await clock.pass(100)
  const verdict = judge(await first.sign())
  await clock.pass(100)
  store.door.open()
  t.equal(await verdict, 'accepted')
})

t.test('a request waits no longer, whatever ends meanwhile', async (t) => {
  const store = leave([])
  store.door.isHeld = true
  const { issuer, keys, judge, clock } = holdKeySet([], { store })
  issuer.door.isHeld = true
  void keys.refresh()
  let verdict: string | undefined
  void judge(await first.sign()).then((found) => {
    verdict = found
  })
  await clock.pass(500)
  store.door.open()
  await clock.pass(299)
  t.equal(verdict, undefined)
  await clock.pass(1)
  await clock.pass(0)
  t.equal(verdict, 'issuer_unavailable')
})

t.test('a request that comes before the store was read waits for the issuer as well', async (t) => {
  const store = leave([first.jwk])
  store.door.isHeld = true
  const { issuer, keys, judge, clock } = holdKeySet([second.jwk], { store })
  issuer.door.isHeld = true
  void keys.refresh()
  const verdict = judge(await second.sign())
  await clock.pass(700)
  issuer.door.open()
  t.equal(await verdict, 'accepted')
})

t.test('a store and an issuer that both hang keep a request less than a second', async (t) => {
  const store = leave([first.jwk])
  store.door.isHeld = true
  const { issuer, keys, judgeInTime } = holdKeySet([], { store })
  issuer.door.isHeld = true
  void keys.refresh()
  t.same(await judgeInTime(await first.sign()), { verdict: 'issuer_unavailable', tookMs: 800 })
})

t.test('a store that was down at the start is read again until that has worked', async (t) => {
  const store = leave([first.jwk])
  store.isDown = true
  const { issuer, keys, judge, clock, events } = holdKeySet([], { store })
  issuer.isDown = true
  await keys.refresh()
  t.equal(await judge(await first.sign()), 'issuer_unavailable')
  t.match(events.map(({ kind }) => kind).sort(), ['fetch-failed', 'store-failed'])
  store.isDown = false
  await clock.pass(1_000)
  t.equal(await judge(await first.sign()), 'accepted')
  const { loads } = store
  await clock.pass(hourMs)
  t.equal(store.loads, loads, 'and then no more')
})

t.test('the age of stored keys counts', async (t) => {
  const { issuer, keys, judge, clock } = holdKeySet([], { store: leave([first.jwk], startedAt - 23 * hourMs) })
  issuer.isDown = true
  await keys.refresh()
  t.equal(keys.ageMs(), 23 * hourMs)
  await clock.pass(hourMs)
  t.equal(await judge(await first.sign()), 'accepted')
  await clock.pass(1)
  t.equal(await judge(await first.sign()), 'issuer_unavailable')
  t.equal(keys.version(), undefined)
})

t.test('after the start the time of day means nothing to stored keys', async (t) => {
  const { issuer, keys, judge, clock } = holdKeySet([], { store: leave([first.jwk], startedAt - hourMs) })
  issuer.isDown = true
  await keys.refresh()
  clock.setNow(new Date('2099-01-01T00:00:00Z'))
  t.equal(await judge(await first.sign()), 'accepted')
  clock.setNow(new Date('1999-01-01T00:00:00Z'))
  await clock.pass(23 * hourMs + 1)
  t.equal(await judge(await first.sign()), 'issuer_unavailable')
})

t.test('stored keys that are too old are not used', async (t) => {
  const { issuer, keys, judge } = holdKeySet([], { store: leave([first.jwk], startedAt - dayMs - 1) })
  issuer.isDown = true
  await keys.refresh()
  t.equal(await judge(await first.sign()), 'issuer_unavailable')
  t.equal(keys.version(), undefined)
  t.equal(keys.ageMs(), undefined)
})

t.test('keys stored in the future are as old as the start', async (t) => {
  const { issuer, keys, judge, clock } = holdKeySet([], { store: leave([first.jwk], startedAt + 365 * dayMs) })
  issuer.isDown = true
  await keys.refresh()
  t.equal(keys.ageMs(), 0)
  await clock.pass(dayMs)
  t.equal(await judge(await first.sign()), 'accepted')
  await clock.pass(1)
  t.equal(await judge(await first.sign()), 'issuer_unavailable')
})

t.test('stored keys go through the same filter as fetched ones', async (t) => {
  const weak = { kty: 'oct', k: 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8', kid: 'first' }
  const offCurve = { ...first.jwk, y: second.jwk.y, kid: 'off-curve' }
  const { issuer, keys, judge } = holdKeySet([], { store: leave([weak, offCurve, null, 'x', second.jwk]) })
  issuer.isDown = true
  await keys.refresh()
  t.equal(await judge(await second.sign()), 'accepted')
  t.equal(await judge(await first.sign()), 'issuer_unavailable')
  t.equal(await judge(await first.sign('off-curve')), 'issuer_unavailable')
})

t.test('a stored value that is not a key set counts for nothing', async (t) => {
  for (const kept of [null, {}, 'keys', 1, [], [null], [{ kty: 'oct', k: 'AA' }]]) {
    const { issuer, keys, judge, clock, fetches } = holdKeySet([first.jwk], { store: leave(kept) })
    issuer.isDown = true
    await keys.refresh()
    t.equal(keys.version(), undefined)
    t.equal(await judge(await first.sign()), 'issuer_unavailable', JSON.stringify(kept))
    await clock.pass(1_000)
    t.equal(fetches(), 2, 'the start is in a hurry')
  }
  const { issuer, keys, judge } = holdKeySet([first.jwk], { store: leave([first.jwk], Number.NaN) })
  issuer.isDown = true
  await keys.refresh()
  t.equal(await judge(await first.sign()), 'issuer_unavailable', 'a time that is none')
})

t.test('a good fetch is stored: public parts, with its time', async (t) => {
  const { keys, store, clock } = holdKeySet([
    { ...first.jwk, d: 'private', x5c: ['AA'] },
    { kty: 'oct', k: 'AA' },
  ])
  await clock.pass(minuteMs)
  await keys.refresh()
  t.same(store.saved, [{ keys: [first.jwk], fetchedAt: new Date(startedAt + minuteMs) }])
})

t.test('the same keys are stored again once a tenth of their life has passed, others at once', async (t) => {
  const { issuer, keys, store, clock } = holdKeySet([first.jwk], { refreshMs: minuteMs, maxStaleMs: 10 * hourMs })
  await keys.refresh()
  await clock.pass(59 * minuteMs)
  t.equal(store.saved.length, 1)
  await clock.pass(minuteMs)
  t.same(
    store.saved.map(({ fetchedAt }) => fetchedAt.getTime() - startedAt),
    [0, hourMs],
  )
  issuer.keys = [second.jwk]
  await clock.pass(minuteMs)
  issuer.keys = []
  await clock.pass(minuteMs)
  t.same(
    store.saved.slice(2).map((saved) => saved.keys),
    [[second.jwk], []],
    'that all are withdrawn as well',
  )
})

t.test('a stored key set is not written at a start, unless it is old', async (t) => {
  for (const [ageMs, writes] of [
    [hourMs, 0],
    [3 * hourMs, 1],
  ] as const) {
    const store = leave([first.jwk], startedAt - ageMs)
    const { issuer, keys, clock } = holdKeySet([first.jwk], { store })
    issuer.door.isHeld = true
    void keys.refresh()
    await clock.pass(0)
    issuer.door.open()
    await clock.pass(0)
    t.equal(store.saved.length, writes)
  }
})

t.test('a key set that could not be stored is stored with the next good fetch', async (t) => {
  const { keys, judge, store, clock, events } = holdKeySet([first.jwk], { refreshMs: minuteMs })
  store.isDown = true
  await keys.refresh()
  await clock.pass(minuteMs)
  t.equal(store.saved.length, 0)
  t.ok(events.some(({ kind }) => kind === 'store-failed'))
  t.equal(await judge(await first.sign()), 'accepted', 'a store that is down costs nothing else')
  store.isDown = false
  await clock.pass(minuteMs)
  t.equal(store.saved.length, 1)
  await clock.pass(minuteMs)
  t.equal(store.saved.length, 1)
})
