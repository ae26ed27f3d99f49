import { type Replication, startReplication } from '../../test/spec/standby.ts'
import { populate } from '../../test/support/population.ts'
import { type Drill, type Finding, withoutDirectory } from '../drill.ts'
import type { DrillFixture } from '../fixture.ts'
import { findRevoked, keepAccount } from '../revoked.ts'

const pairOf = ({ notes }: Pick<DrillFixture, 'notes'>): Replication => notes.get('pair') as Replication

/** One second behind, and one believed (docs/guides/postgresql.md). */
const boundMs = 2_000

export const drill: Drill = {
  about: 'the standby at database.url stops its replay, and a token is revoked on the primary',
  cells: [['database', 'stale']],
  alerts: ['SallyportDatabaseStandby'],
  startDatabase: async (owner, notes) => {
    const pair = await startReplication(owner)
    notes.set('pair', pair)
    // Both end with their owner.
    return { url: pair.primary.url, pid: () => undefined, stop: async () => undefined }
  },
  // A standby takes no first login, whatever its replay does.
  adapt: (flows) => ({ ...flows, newcomer: { ...flows.newcomer, usual: [503] } }),
  prepare: async (fixture) => {
    const { primary, standby, untilReplayed } = pairOf(fixture)
    keepAccount(fixture, await populate(fixture.owner, fixture.world))
    await untilReplayed()
    // Redis carries changes as well.
    return { settings: { database: { url: standby.url, listenUrl: primary.url }, redis: undefined } }
  },
  begin: async (fixture) => {
    const { pauseReplay, untilReplayed } = pairOf(fixture)
    const steps = { whenAdded: untilReplayed, whenTaken: pauseReplay }
    fixture.notes.set('revoked', await findRevoked(fixture, fixture.gateway().public, boundMs, steps))
  },
  end: (fixture) => pairOf(fixture).resumeReplay(),
  expect: { ...withoutDirectory(3_000), newcomer: { statuses: [503], withinMs: 3_000 } },
  lookDuring: async (fixture) => {
    const lagSeconds = await fixture.metric('sallyport_database_standby_lag_seconds')
    const lag = { check: 'the lag, by its metric', seen: `${lagSeconds.toFixed(1)} s`, limit: '> 1 s' }
    return [...(fixture.notes.get('revoked') as readonly Finding[]), { ...lag, isMet: lagSeconds > 1 }]
  },
}
