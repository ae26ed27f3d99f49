import t from 'tap'
import type { ReceivedLogout } from '../../gateway/directory/logout.ts'
import { LogoutWriter } from '../../gateway/directory/logouts/logout-writer.ts'

/** Logouts that may wait for the database. */
const room = 10_000

const logout = (issuer: string, subject: string, at: number): ReceivedLogout => ({
  ...{ issuer, subject, session: '', at, expiresAt: at + 100 },
  ...{ credential: 'logout-token', clientAddress: '192.0.2.1', requestId: 'r' },
})

const nameOf = ({ issuer, subject, at }: ReceivedLogout): string => `${issuer} ${subject} ${at}`

t.test('an issuer that fills the room during an outage takes none from another', async (t) => {
  let isDown = true
  const written: ReceivedLogout[] = []
  const writer = new LogoutWriter({
    write: async (batch) => {
      if (isDown) throw new Error('the database is down')
      written.push(...batch)
    },
    onFailed: () => undefined,
  })
  t.teardown(() => writer.stop())
  const store = (one: ReceivedLogout): Promise<unknown> => writer.store(one).catch((error: unknown) => error)
  const refused: Promise<unknown>[] = []
  for (let count = 1; count < room; count += 1) refused.push(store(logout('busy', `b-${count}`, count)))
  refused.push(store(logout('calm', 'c-1', 7)))
  t.equal(writer.unstored, room)
  refused.push(store(logout('other', 'o-1', 8)))
  t.equal(writer.unstored, 3)
  refused.push(store(logout('calm', 'c-2', 9)))
  const reasons = new Set((await Promise.all(refused)).map(String))
  t.same([...reasons], ['Error: the database is down'])
  isDown = false
  await writer.stop()
  t.same(written.map(nameOf).sort(), [`busy  ${room - 1}`, 'calm c-1 7', 'calm c-2 9', 'other o-1 8'])
})
