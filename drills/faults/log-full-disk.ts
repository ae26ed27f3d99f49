import { closeSync, openSync } from 'node:fs'
import { type Drill, findDropped } from '../drill.ts'

export const drill: Drill = {
  about: 'standard output is on a full disk from the start',
  cells: [['log', 'full']],
  alerts: ['SallyportLogDropping'],
  isShort: true,
  prepare: ({ owner }) => {
    const output = openSync('/dev/full', 'w')
    owner.teardown(() => closeSync(output))
    return { output, settings: { log: { bufferBytes: 65_536 }, audit: { sink: 'off' } } }
  },
  // The disk is full all the time, and the gateway must serve nevertheless.
  begin: () => undefined,
  end: () => undefined,
  lookDuring: findDropped,
  lookAfter: async ({ gateway }) => {
    const startedMs = performance.now()
    const code = await gateway().stop('SIGTERM')
    const tookMs = performance.now() - startedMs
    return [
      { check: 'SIGTERM ends it with', seen: `${code}`, limit: '0', isMet: code === 0 },
      { check: 'after', seen: `${tookMs.toFixed(0)} ms`, limit: '<= 15000 ms', isMet: tookMs <= 15_000 },
    ]
  },
}
