import { ConnectionAccount, MemoryBudget } from '../../../gateway/http/memory-budget.ts'
import { BatchedWriter } from '../../../gateway/http/socket/batched-writer.ts'
import { readTurns } from '../../../gateway/http/socket/read-turns.ts'
import { column } from './column.ts'
import { type Parts, pressAccount, pressMemory, pressReads, pressWrites } from './pressures.ts'
import { secureListener, secureUpstream } from './tls-ends.ts'

type Settings = Readonly<Record<string, unknown>>

const parts: Parts = { readTurns, MemoryBudget, ConnectionAccount, BatchedWriter }

if (column === 'reads') pressReads(parts)
if (column === 'memory') pressMemory(parts)
if (column === 'account') pressAccount(parts)
if (column === 'writes') pressWrites(parts)

/** So small that the body of a test is above its equal share. */
const heldBytes = 4 * 1024 * 1024

/** The whole configuration of a test's gateway, under the column of the drill. */
export function pressConfiguration(configuration: Settings): Settings {
  const { limits, listeners, upstreams } = configuration
  switch (column) {
    case 'memory':
      return { ...configuration, limits: { heldBytes, ...(limits as Settings | undefined) } }
    case 'workers':
      return { workers: 2, ...configuration }
    case 'tls':
      return {
        ...configuration,
        listeners: secureListener(listeners as Record<string, Settings>),
        upstreams: Object.fromEntries(
          Object.entries(upstreams as Record<string, Settings>).map(([name, upstream]) => [
            name,
            secureUpstream(upstream),
          ]),
        ),
      }
    default:
      return configuration
  }
}

const loader = new URL('../../../scripts/typescript.js', import.meta.url).href
const preload = new URL('preload.ts', import.meta.url).href
const tellWorker = new URL('tell-worker.js', import.meta.url).href

/** Variables of a process of the gateway, which make the column press there as well. */
export function pressEnvironment(environment: Readonly<Record<string, string>> = {}): Record<string, string> {
  const { DEFENCES_COLUMN, DEFENCES_EVIDENCE } = process.env
  if (DEFENCES_COLUMN === undefined || DEFENCES_EVIDENCE === undefined || column === 'tls') return { ...environment }
  const imports = column === 'workers' ? [tellWorker] : [loader, preload]
  const options = [environment.NODE_OPTIONS, ...imports.map((url) => `--import=${url}`)].filter(Boolean)
  return { ...environment, DEFENCES_COLUMN, DEFENCES_EVIDENCE, NODE_OPTIONS: options.join(' ') }
}
