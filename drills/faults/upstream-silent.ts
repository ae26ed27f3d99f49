import { type Drill, withoutUpstream } from '../drill.ts'
import { resumeAnswers } from '../fixture.ts'

const firstByteMs = 1_000

export const drill: Drill = {
  about: 'the upstream takes every request and answers none',
  cells: [['upstream', 'hangs']],
  alerts: ['SallyportUpstreamFailing'],
  prepare: () => ({ settings: { timeouts: { firstByteMs } } }),
  begin: ({ upstream }) => upstream.answer(() => undefined),
  end: resumeAnswers,
  // A retry would go to the next address, which is missing.
  expect: withoutUpstream(firstByteMs + 1_500),
}
