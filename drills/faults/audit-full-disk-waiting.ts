import { renameSync, symlinkSync, unlinkSync } from 'node:fs'
import type { Drill } from '../drill.ts'
import { auditFile } from '../fixture.ts'

const refused = { statuses: [503], withinMs: 3_000 }

export const drill: Drill = {
  about: 'the disk of the audit is full, and no request goes without its line (audit.onFull: wait)',
  cells: [['disk', 'full']],
  alerts: ['SallyportAuditSinkDown'],
  prepare: (fixture) => ({ settings: { audit: { sink: auditFile(fixture), onFull: 'wait' } } }),
  begin: (fixture) => {
    renameSync(auditFile(fixture), `${auditFile(fixture)}.1`)
    symlinkSync('/dev/full', auditFile(fixture))
  },
  end: (fixture) => unlinkSync(auditFile(fixture)),
  expect: {
    ...{ public: refused, anonymous: refused, session: refused, token: refused },
    ...{ unknown: refused, revoked: refused, forged: refused, newcomer: refused },
  },
}
