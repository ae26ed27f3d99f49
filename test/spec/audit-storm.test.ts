import t from 'tap'
import { countIds, createStart, readAudit, settleWritten, startAuditUpstream } from '../support/audit.ts'
import { startTestWorld } from '../support/world.ts'
import { storm } from './audit-storm.ts'

// 2,402 lines for 2,397 counted: the count took twenty bodies for broken. A busy machine's directory does not answer in
// time, so the request is 503 before its body is read.
t.test('unread bodies are not counted as broken, and every request still has its line', async (t) => {
  const world = await startTestWorld(t)
  const start = createStart(world, await startAuditUpstream(t))
  const { serving, file } = await start(t, {}, { database: { url: 'postgres://nobody@127.0.0.1:1/nowhere' } })
  const { certain, brokenBodies } = await storm(serving, world)
  t.equal(brokenBodies, 0)
  const { requests, malformed } = await settleWritten(serving, brokenBodies)
  const lines = readAudit(file)
  t.equal(lines.length, requests + malformed)
  const counts = countIds(lines)
  t.same(
    certain.filter((id) => counts.get(id) !== 1),
    [],
  )
})
