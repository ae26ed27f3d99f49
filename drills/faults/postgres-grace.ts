import { type Drill, withoutDirectory } from '../drill.ts'

const { unknown, revoked, newcomer } = withoutDirectory(3_000)

export const drill: Drill = {
  about: 'PostgreSQL resets every connection, and directory.graceMs lets known callers go on',
  cells: [],
  alerts: ['SallyportDirectoryGrace'],
  prepare: () => ({ settings: { directory: { graceMs: 600_000 } } }),
  begin: ({ wires: { database } }) => {
    database.refuse()
    database.cut()
  },
  end: ({ wires: { database } }) => database.accept(),
  expect: {
    ...(unknown && { unknown }),
    ...(revoked && { revoked }),
    ...(newcomer && { newcomer }),
    // The first request waits until the outage is noticed. None is refused.
    session: { statuses: [200], withinMs: 3_000 },
    token: { statuses: [200], withinMs: 3_000 },
  },
  lookDuring: async ({ gateway }) => {
    const answer = await fetch(`${gateway().admin}/readyz`)
    const { checks } = (await answer.json()) as { checks: Readonly<Record<string, string>> }
    return [
      { check: '/readyz', seen: `${answer.status}`, limit: '200', isMet: answer.status === 200 },
      { check: 'database', seen: `${checks.database}`, limit: 'limited', isMet: checks.database === 'limited' },
    ]
  },
}
