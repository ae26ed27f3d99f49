import { renameSync, symlinkSync, unlinkSync } from 'node:fs'
import type { Drill } from '../drill.ts'
import { auditFile } from '../stage.ts'

const refused = { statuses: [503], withinMs: 3_000 }

export const drill: Drill = {
  about: 'the disk of the audit is full, and no request goes without its line (audit.onFull: wait)',
  cells: [['disk', 'full']],
  alerts: ['SallyportAuditSinkDown'],
  prepare: (stage) => ({ settings: { audit: { sink: auditFile(stage), onFull: 'wait' } } }),
  begin: (stage) => {
    renameSync(auditFile(stage), `${auditFile(stage)}.1`)
    symlinkSync('/dev/full', auditFile(stage))
  },
  end: (stage) => unlinkSync(auditFile(stage)),
  expect: {
    ...{ public: refused, anonymous: refused, session: refused, token: refused },
    ...{ unknown: refused, revoked: refused, forged: refused, newcomer: refused },
  },
}
