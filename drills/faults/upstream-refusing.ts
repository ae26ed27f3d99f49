import { type Drill, withoutUpstream } from '../drill.ts'

export const drill: Drill = {
  about: 'the upstream resets every connection, old ones and new ones',
  cells: [['upstream', 'refuses']],
  alerts: ['SallyportUpstreamFailing', 'SallyportUpstreamAddressDown'],
  begin: ({ wires: { upstream } }) => {
    upstream.refuse()
    upstream.cut()
  },
  end: ({ wires: { upstream } }) => upstream.accept(),
  expect: withoutUpstream(3_000),
}
