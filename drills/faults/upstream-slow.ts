import { type Drill, withoutUpstream } from '../drill.ts'
import { resumeAnswers } from '../fixture.ts'

const delayMs = 500

export const drill: Drill = {
  about: 'the upstream answers after half a second',
  cells: [['upstream', 'slow']],
  alerts: ['SallyportStageSlow'],
  isMild: true,
  begin: ({ upstream }) => upstream.answer((response) => void setTimeout(() => response.end('ok'), delayMs)),
  end: resumeAnswers,
  expect: withoutUpstream(delayMs + 1_000, []),
}
