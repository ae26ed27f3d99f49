import pg from 'pg'
import { type Drill, withoutDirectory } from '../drill.ts'
import type { DrillFixture } from '../fixture.ts'

async function change({ world }: DrillFixture, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: world.databaseUrl })
  await client.connect()
  await client.query(text)
  await client.end()
}

export const drill: Drill = {
  about: 'the role of database.url loses the right to read users, while its connections go on',
  cells: [],
  alerts: ['SallyportDatabaseRefusesStatements'],
  begin: async (fixture) => {
    await change(fixture, 'revoke select on users from sallyport')
    // A change of rights sends no invalidation to the caches.
    await change(fixture, `select pg_notify('sallyport_changes', '{"kind":"everything"}')`)
  },
  end: (fixture) => change(fixture, 'grant select on users to sallyport'),
  // Hashes of tokens can still be read, so that a guess is known for one.
  expect: { ...withoutDirectory(3_000), unknown: { statuses: [401, 503], withinMs: 3_000 } },
  lookDuring: async ({ gateway }) => {
    const answer = await fetch(`${gateway().admin}/readyz`)
    const { causes = {} } = (await answer.json()) as { causes?: Readonly<Record<string, string>> }
    return [
      { check: '/readyz', seen: `${answer.status}`, limit: '503', isMet: answer.status === 503 },
      {
        check: 'its cause',
        seen: `${causes.schema}`,
        limit: 'names the right',
        isMet: /permission denied for table users/.test(causes.schema ?? ''),
      },
    ]
  },
}
