import t from 'tap'
import type { Login, Logout } from '../../gateway/directory/logout.ts'
import { LogoutTable } from '../../gateway/directory/logouts/logout-table.ts'

const issuer = 'https://login.example'

const logout = (subject: string, session: string, at: number): Logout => ({
  issuer,
  subject,
  session,
  at,
  expiresAt: at + 100,
})

const login = (subject: string, session: string | undefined, issuedAt: number | undefined): Login => ({
  issuer,
  subject,
  address: undefined,
  session,
  issuedAt,
  isOverlong: false,
})

t.test('a logout ends the logins of its subject, session or both until its second', async (t) => {
  const table = new LogoutTable()
  t.notOk(table.hasEnded(login('a', undefined, undefined)), 'of an issuer without logouts')
  table.add(logout('a', '', 10))
  table.add(logout('', 's', 20))
  table.add(logout('b', 'x', 30))
  const cases: readonly (readonly [Login, boolean])[] = [
    [login('a', undefined, 10), true],
    [login('a', 'other', 10.9), true],
    [login('a', undefined, 11), false],
    [login('a', undefined, undefined), true],
    [{ ...login('a', undefined, 99), isOverlong: true }, true],
    [login('c', 's', 20), true],
    [login('c', 's', 21), false],
    [login('c', undefined, undefined), false],
    [login('b', 'x', 30), true],
    [login('b', 'y', 30), false],
    [login('b', undefined, 30), true],
    [login('b', undefined, 31), false],
    [{ ...login('a', undefined, 1), issuer: 'https://other.example' }, false],
  ]
  for (const [one, expected] of cases) t.equal(table.hasEnded(one), expected, JSON.stringify(one))
})

t.test('a logout by address ends the logins with that verified address alone', async (t) => {
  const addresses = `${issuer}#email`
  const table = new LogoutTable()
  table.add({ ...logout('ada@x.example', '', 10), issuer: addresses })
  table.add({ ...logout('bob@x.example', 's', 20), issuer: addresses })
  const at = (subject: string, session?: string): Login => ({
    ...login('any', session, 10),
    address: { issuer: addresses, subject },
  })
  t.ok(table.hasEnded(at('ada@x.example')))
  t.notOk(table.hasEnded({ ...at('ada@x.example'), issuedAt: 11 }))
  t.notOk(table.hasEnded(at('carol@x.example')))
  t.notOk(table.hasEnded(login('ada@x.example', undefined, 10)), 'a subject that reads like an address')
  t.ok(table.hasEnded(at('bob@x.example', 's')))
  t.notOk(table.hasEnded(at('bob@x.example', 'other')))
  t.ok(table.hasEnded(at('bob@x.example')), 'without sid')
})

t.test('an older logout or a replay ends nothing more', async (t) => {
  const table = new LogoutTable()
  t.ok(table.add(logout('a', '', 10)))
  t.notOk(table.add(logout('a', '', 10)))
  t.notOk(table.add(logout('a', '', 9)))
  t.ok(table.hasEnded(login('a', undefined, 10)))
  t.ok(table.add(logout('a', '', 11)))
})

t.test('beyond the bounds old logouts become wider ones, and none is forgotten', async (t) => {
  const table = new LogoutTable({ entriesOfIssuer: 100, sessionsOfSubject: 4 })
  const all: Logout[] = []
  for (let at = 1; at <= 1_000; at += 1) {
    const subject = at % 3 === 0 ? '' : `subject-${at % 50}`
    const session = at % 3 === 1 ? '' : `session-${at}`
    all.push(logout(subject, session, at))
    table.add(logout(subject, session, at))
    t.ok(table.size <= 101, `${table.size} at ${at}`)
  }
  for (const { subject, session, at } of all) {
    const one = login(subject || 'anyone', session || undefined, at)
    if (!table.hasEnded(one)) t.fail(JSON.stringify(one))
  }
  t.notOk(table.hasEnded(login('anyone', undefined, 999)))
})

t.test('the sessions of one subject do not widen the logouts of others', async (t) => {
  const table = new LogoutTable({ entriesOfIssuer: 100, sessionsOfSubject: 4 })
  for (let at = 1; at <= 500; at += 1) table.add(logout('busy', `s-${at}`, at))
  t.ok(table.size <= 5)
  t.ok(table.hasEnded(login('busy', 'another', 490)), 'of the subject itself')
  t.notOk(table.hasEnded(login('busy', 'another', 500)))
  t.notOk(table.hasEnded(login('calm', 's', 1)))
})

t.test('a logout is dropped after its life, and no earlier', async (t) => {
  const table = new LogoutTable()
  table.add(logout('a', 's', 10))
  table.add(logout('b', '', 10))
  table.dropExpired(109)
  t.equal(table.size, 2)
  t.ok(table.hasEnded(login('a', 's', 10)))
  table.dropExpired(110)
  t.equal(table.size, 0)
  t.notOk(table.hasEnded(login('a', 's', 10)))
})
