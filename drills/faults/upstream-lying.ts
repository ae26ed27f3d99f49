import { type Drill, withoutUpstream } from '../drill.ts'
import { resumeAnswers } from '../fixture.ts'

export const drill: Drill = {
  about: 'the upstream answers with two Content-Length headers, as in response smuggling',
  cells: [['upstream', 'lies']],
  alerts: ['SallyportUpstreamFailing'],
  begin: ({ upstream }) =>
    upstream.answer(
      ({ socket }) => void socket?.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 5\r\n\r\nokoko'),
    ),
  end: resumeAnswers,
  expect: withoutUpstream(3_000),
}
