import { leadThrough, startTcpProxy } from '../../test/support/tcp-proxy.ts'
import type { HearServer } from '../../test/support/tcp-wire.ts'
import { type Drill, withoutDirectory } from '../drill.ts'

/** Faults of a program in between that has lost its place in the protocol; each takes its turn. */
const lies: readonly ((bytes: Buffer) => 'pass' | 'drop')[] = [
  (bytes) => overwrite(bytes, 0, 0xff), // a message of no known type
  (bytes) => overwrite(bytes, 1, 0x7f), // one that is longer than memory
  (bytes) => overwrite(bytes.fill(0), 0, 0), // messages without a length
  () => 'drop',
]

function overwrite(bytes: Buffer, at: number, value: number): 'pass' {
  bytes[at] = value
  return 'pass'
}

export const drill: Drill = {
  about: 'the answers of PostgreSQL are not of its protocol',
  cells: [['database', 'lies']],
  alerts: ['SallyportDatabaseFailing'],
  prepare: async ({ owner, world, notes }) => {
    let count = 0
    const hearServer: HearServer = (bytes) =>
      notes.has('lying') ? (lies[count++ % lies.length]?.(bytes) ?? 'pass') : 'pass'
    const wire = await startTcpProxy(owner, { port: Number(new URL(world.databaseUrl).port), hearServer })
    return { settings: { database: { url: leadThrough(wire, world.databaseUrl) } } }
  },
  begin: ({ notes }) => notes.set('lying', true),
  end: ({ notes }) => notes.delete('lying'),
  expect: withoutDirectory(3_000),
}
