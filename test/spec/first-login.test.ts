import pg from 'pg'
import t from 'tap'
import { type Answer, call } from '../support/client.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { startReplica } from '../support/replicas.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
/** A crowd that is queued must not time out. */
const optionsOf = (name: string) => {
  const url = `${world.databaseUrl}?application_name=${name}`
  return { world, settings: { database: { url, connectTimeoutMs: 20_000, queryTimeoutMs: 20_000 } } }
}
/** Two processes, of which this is one. */
const replicas = await Promise.all([
  startTestGateway(t, optionsOf('replica-1')),
  startReplica(t, optionsOf('replica-2')),
])

const database = new pg.Pool({ connectionString: world.databaseUrl, max: 2 })
database.on('error', () => undefined)
t.teardown(() => database.end())

const crowdSize = 100

/** Many first requests of one new identity, at every replica in turn. */
async function logIn(subject: string): Promise<readonly Answer[]> {
  const headers = oauth({ jwt: await world.mint({ sub: subject, email: emailOf(subject) }) })
  const origins = Array.from({ length: crowdSize }, (_, index) => replicas[index % replicas.length]?.public ?? '')
  return Promise.all(origins.map((origin) => call(origin, { path: '/users/me', headers })))
}

const emailOf = (subject: string): string => `${subject}@first.example`

async function count(what: string, values: readonly unknown[] = []): Promise<number> {
  const { rows } = await database.query<{ count: number }>(`select count(*)::int from ${what}`, [...values])
  return rows[0]?.count ?? Number.NaN
}

/** The answers of a crowd and the contents of the tables, as one text so that a failure shows the numbers. */
const summarize = async (subject: string, answers: readonly Answer[]) => ({
  succeeded: answers.filter(({ status }) => status === 200).length,
  answeredUsers: new Set(answers.map((answer) => answer.json().data?.id)).size,
  users: await count('users where email = $1', [emailOf(subject)]),
  identities: await count('user_identities where subject = $1', [subject]),
})

const oneOfEach = { succeeded: crowdSize, answeredUsers: 1, users: 1, identities: 1 }

t.test('100 parallel first requests over two replicas make one user', async (t) => {
  // Holds both logins before their insert: otherwise the first one is done before the second comes.
  const gate = await database.connect()
  await gate.query('begin; lock table user_identities in exclusive mode')
  const answering = logIn('crowd')
  const waiting =
    "pg_stat_activity where application_name like 'replica-%' and datname = current_database() and wait_event_type = 'Lock'"
  try {
    const isAtGate = async () => (await count(`(select distinct application_name from ${waiting}) waiting`)) === 2
    await until(isAtGate, 'first requests of both replicas at the gate', 20_000)
  } finally {
    await gate.query('commit')
    gate.release()
  }
  t.same(await summarize('crowd', await answering), oneOfEach)
})

t.test('parallel first requests make one user however they meet, time after time', async (t) => {
  for (let round = 1; round <= 5; round++) {
    const subject = `crowd-${round}`
    t.same(await summarize(subject, await logIn(subject)), oneOfEach, subject)
  }
})
