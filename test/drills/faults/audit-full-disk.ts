import { renameSync, symlinkSync, unlinkSync } from 'node:fs'
import type { Drill } from '../drill.ts'
import { auditFile } from '../stage.ts'

export const drill: Drill = {
  about: 'the disk of the audit is full; its lines may be dropped (audit.onFull: drop)',
  cells: [['disk', 'full']],
  alerts: ['SallyportAuditSinkDown', 'SallyportAuditDropping'],
  prepare: (stage) => ({ settings: { audit: { sink: auditFile(stage), bufferBytes: 65_536 } } }),
  begin: (stage) => {
    renameSync(auditFile(stage), `${auditFile(stage)}.1`)
    symlinkSync('/dev/full', auditFile(stage))
  },
  end: (stage) => unlinkSync(auditFile(stage)),
  lookDuring: async ({ metric }) => {
    const isUp = await metric('sallyport_audit_sink_up')
    return [{ check: 'sallyport_audit_sink_up', seen: `${isUp}`, limit: '0', isMet: isUp === 0 }]
  },
}
