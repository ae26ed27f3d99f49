import { hostname } from 'node:os'
import type { Configuration } from '../../configuration/configuration.ts'
import { type Audit, createAudit, noAudit } from '../../observe/audit/audit.ts'
import { openPlace, type Sink } from '../../observe/audit/sink.ts'
import { ConfigurationError } from '../../policy/configuration-error.ts'
import type { ProcessContext } from './process-context.ts'

export function openAudit({ audit, problemAt }: Configuration, context: AuditEquipment): Audit {
  if (audit.sink === 'off') return noAudit
  const { replica = hostname(), ...settings } = audit
  const place = open(audit.sink, problemAt)
  return createAudit(place, { ...settings, replica: `${replica}/${process.pid}` }, context)
}

type AuditEquipment = Pick<ProcessContext, 'log' | 'metrics'> & Readonly<{ monotonicMs: () => number }>

function open(sink: string, problemAt: Configuration['problemAt']): Sink {
  try {
    return openPlace(sink)
  } catch (error) {
    const message = `audit.sink cannot be opened: ${explain((error as NodeJS.ErrnoException).code)}`
    throw new ConfigurationError([problemAt(['audit', 'sink'], message)])
  }
}

const explain = (code: string | undefined): string =>
  code === 'ENXIO'
    ? 'ENXIO, no program reads this pipe'
    : `${code ?? 'unknown error'}; name a file that this user may write`
