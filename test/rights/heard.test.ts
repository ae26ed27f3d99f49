import t from 'tap'
import { HeardLog, type Moments, UnreadChanges } from '../../gateway/rights/heard.ts'

const user =
  (id: number) =>
  (moments: Moments): number =>
    moments.at('user', id)

t.test('a change is heard since each position before it, and names its subject alone', async (t) => {
  const log = new HeardLog()
  const before = log.position
  log.note('user', 7)
  t.ok(log.since(user(7), before))
  t.notOk(log.since(user(8), before))
  t.notOk(log.since(user(7), log.position))
  t.notOk(
    log.since((moments) => moments.at('token', 7), before),
    'another kind has numbers of its own',
  )
})

t.test('everything is heard by all, and what names no subject moves the position alone', async (t) => {
  const log = new HeardLog()
  const before = log.position
  log.noteUnnamed()
  t.not(log.position, before)
  t.notOk(log.since(user(7), before))
  log.noteEverything()
  t.ok(log.since(user(7), before))
  t.notOk(log.since(user(7), log.position))
})

t.test('of a time that is no longer remembered, anything may have changed', async (t) => {
  const log = new HeardLog()
  log.note('user', 1)
  const early = log.position
  for (let id = 100; id < 20_100; id++) log.note('user', id)
  t.ok(log.since(user(20_099), early))
  t.notOk(log.since(user(7), early), 'the part before is kept')
  for (let id = 100; id < 20_100; id++) log.note('user', id)
  t.ok(log.since(user(7), early))
  t.notOk(log.since(user(7), log.position - 1))
})

t.test('anything at all moves the log, for one who knows no subject', async (t) => {
  const log = new HeardLog()
  const began = log.position
  t.notOk(log.anySince(began))
  log.noteUnnamed()
  t.ok(log.anySince(began))
  t.notOk(log.anySince(log.position))
})

t.test('the first change that is heard and not read counts, until a read that began after it', async (t) => {
  const unread = new UnreadChanges()
  t.equal(unread.firstMs, Number.POSITIVE_INFINITY)
  unread.note(20)
  unread.note(30)
  unread.beginRead()
  unread.note(40)
  t.equal(unread.firstMs, 20, 'the read has no answer yet')
  unread.beginRead()
  t.equal(unread.firstMs, 20, 'a read after one that failed')
  unread.note(50)
  unread.endRead()
  t.equal(unread.firstMs, 50, 'heard during the read')
})
