import { renameSync, symlinkSync, unlinkSync } from 'node:fs'
import type { Drill } from '../drill.ts'
import { auditFile } from '../fixture.ts'

export const drill: Drill = {
  about: 'the disk of the audit is full; its lines may be dropped (audit.onFull: drop)',
  cells: [['disk', 'full']],
  alerts: ['SallyportAuditSinkDown', 'SallyportAuditDropping'],
  prepare: (fixture) => ({ settings: { audit: { sink: auditFile(fixture), bufferBytes: 65_536 } } }),
  begin: (fixture) => {
    renameSync(auditFile(fixture), `${auditFile(fixture)}.1`)
    symlinkSync('/dev/full', auditFile(fixture))
  },
  end: (fixture) => unlinkSync(auditFile(fixture)),
  lookDuring: async ({ metric }) => {
    const isUp = await metric('sallyport_audit_sink_up')
    return [{ check: 'sallyport_audit_sink_up', seen: `${isUp}`, limit: '0', isMet: isUp === 0 }]
  },
}
