import { rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import {
  countAudited,
  createStart,
  holdPipe,
  makeAuditFolder,
  makeId,
  readAudit,
  settle,
  startAuditUpstream,
} from '../support/audit.ts'
import { call } from '../support/client.ts'
import { startFairClock } from '../support/fair-clock.ts'
import { until } from '../support/gateway.ts'
import { askAtOnce } from '../support/workers.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const skip = process.platform === 'linux' ? false : 'looks at pipes and /dev/full'
const world = await startTestWorld(t)
const { owner } = world.users
const upstream = await startAuditUpstream(t)
const start = createStart(world, upstream)

t.test(
  'drop: a sink whose reader has stopped costs lines, which are counted, and no request anything',
  { skip },
  async (t) => {
    const pipe = await holdPipe(t)
    const { serving } = await start(t, { sink: pipe.path, bufferBytes: 20_000 })
    const startedMs = performance.now()
    await askAtOnce(20, 40, async (agent) => {
      const { status } = await call(serving.public, { path: '/public/x', headers: oauth(owner), agent })
      if (status !== 200) throw new Error(`answered ${status}`)
    })
    const counts = await settle(serving)
    t.ok(counts.dropped > 100, `${counts.dropped} dropped`)
    await until(() => serving.log().some(({ msg }) => msg === 'audit lines dropped'), 'a line of the log')
    const { length } = serving.log().filter(({ msg }) => msg === 'audit lines dropped')
    t.ok(length <= 1 + (performance.now() - startedMs) / 10_000, `${length} lines, and not one for each`)
    pipe.read()
    await until(async () => (await countAudited(serving)).written + counts.dropped === counts.requests, 'the others')
    await until(() => pipe.text().split('\n').length - 1 === counts.requests - counts.dropped, 'their lines')
    await call(serving.public, { path: '/nowhere', headers: { 'x-request-id': 'afterwards' } })
    await until(() => pipe.text().includes('"afterwards"'), 'and from then on every line')
  },
)

t.test('wait: nothing is forwarded or answered before its line is written', { skip }, async (t) => {
  const pipe = await holdPipe(t)
  const { serving } = await start(t, { sink: pipe.path, onFull: 'wait', waitMs: 60_000 })
  const ids = Array.from({ length: 300 }, makeId)
  const statuses: number[] = []
  const asked = ids.map(async (id, index) => {
    const [path, headers] =
      index % 3 === 0 ? ['/nowhere', {}] : index % 3 === 1 ? ['/users/me', oauth(owner)] : ['/public/x', oauth(owner)]
    statuses.push((await call(serving.public, { path, headers: { ...headers, 'x-request-id': id } })).status)
  })
  await until(async () => {
    const { inFlight, written } = await countAudited(serving)
    return written > 50 && inFlight + statuses.length === 300
  }, 'that all others are held')
  // Read before the count of lines, which may grow meanwhile.
  const answered = statuses.length
  const forwarded = ids.filter((id) => upstream.ids().includes(id)).length
  const { written } = await countAudited(serving)
  t.ok(answered <= written, `${answered} answers, ${written} lines`)
  t.ok(forwarded <= written, `${forwarded} forwarded, ${written} lines`)
  t.ok(written < 250, 'most are held')
  pipe.read()
  await Promise.all(asked)
  t.same(new Set(statuses), new Set([200, 404]))
  await until(() => pipe.text().split('\n').length - 1 === 300, 'every line')
})

t.test('wait: a decision that cannot be written in time is 503, and reaches no backend', { skip }, async (t) => {
  const pipe = await holdPipe(t)
  const { serving } = await start(t, { sink: pipe.path, onFull: 'wait', waitMs: 300 })
  const ids = Array.from({ length: 400 }, makeId)
  const answers = await Promise.all(
    ids.map((id) => call(serving.public, { path: '/public/x', headers: { ...oauth(owner), 'x-request-id': id } })),
  )
  const refused = ids.filter((_, index) => answers[index]?.status === 503)
  t.ok(refused.length > 50, `${refused.length} refused`)
  t.same(
    refused.filter((id) => upstream.ids().includes(id)),
    [],
  )
  t.equal(answers.find(({ status }) => status === 503)?.json().error.code, 'audit_unavailable')
  const { requests, written, dropped } = await settle(serving)
  t.ok(requests - written - dropped <= 20, 'but for those under way every request has a line or is counted')
})

for (const [what, kill] of Object.entries({
  'a pipe whose reader died': async (t: Test) => {
    const pipe = await holdPipe(t)
    return { sink: pipe.path, kill: pipe.kill }
  },
  'a full disk': async () => ({ sink: '/dev/full', kill: () => undefined }),
  'a folder that was removed': async (t: Test) => {
    const sink = join(makeAuditFolder(t), 'audit.jsonl')
    return { sink, kill: () => rmSync(dirname(sink), { recursive: true }) }
  },
})) {
  t.test(`wait: with ${what} everything is 503, and nothing reaches a backend`, { skip }, async (t) => {
    const { sink, kill: end } = await kill(t)
    const { serving } = await start(t, { sink, onFull: 'wait' })
    end()
    const statusOf = async (path: string, id: string): Promise<number> =>
      (await call(serving.public, { path, headers: { ...oauth(owner), 'x-request-id': id } })).status
    await until(async () => (await statusOf('/public/x', makeId())) === 503, 'the first that is not written')
    const ids = Array.from({ length: 50 }, makeId)
    const passedMs = startFairClock(t)
    for (const [index, id] of ids.entries())
      t.equal(await statusOf(index % 2 === 0 ? '/public/x' : '/nowhere', id), 503)
    t.ok(passedMs() < 10_000, 'no request waits for a failed write')
    t.same(
      ids.filter((id) => upstream.ids().includes(id)),
      [],
    )
    const { text } = await call(serving.admin, { path: '/metrics' })
    t.match(text, /^sallyport_audit_sink_up 0$/m)
    const linesOfIt = () => serving.log().filter(({ msg }) => msg === 'audit not written')
    await until(() => linesOfIt().length > 0, 'the line of the log')
    t.equal((await call(serving.admin, { path: '/healthz' })).status, 200)
    serving.child.kill('SIGTERM')
    await serving.ended
    t.equal(linesOfIt().length, 1, 'once')
  })

  t.test(`drop: with ${what} everything is served, and what is missing is counted`, { skip }, async (t) => {
    const { sink, kill: end } = await kill(t)
    const { serving } = await start(t, { sink, bufferBytes: 4_096 })
    end()
    await until(async () => {
      await askAtOnce(10, 3, async (agent) => {
        const { status } = await call(serving.public, { path: '/public/x', headers: oauth(owner), agent })
        if (status !== 200) throw new Error(`answered ${status}`)
      })
      // The writer looks for a removed file once a second; until then lines may be dropped.
      const isTold = serving.log().some(({ msg }) => msg === 'audit not written')
      return isTold && (await countAudited(serving)).dropped > 0
    }, 'dropped lines, and a line of the log')
  })
}

t.test('wait: a gateway that is killed has forwarded nothing without a line', async (t) => {
  const { serving, file } = await start(t, { onFull: 'wait' })
  const ids: string[] = []
  const asked = askAtOnce(30, 200, (agent) => {
    const id = makeId()
    ids.push(id)
    return call(serving.public, { path: '/public/x', headers: { ...oauth(owner), 'x-request-id': id }, agent })
  }).catch(() => undefined)
  await until(() => ids.length > 1_000, 'a thousand requests', 30_000)
  serving.child.kill('SIGKILL')
  await Promise.all([serving.ended, asked])
  const written = new Set(readAudit(file).map(({ requestId }) => requestId))
  const forwarded = upstream.ids().filter((id) => ids.includes(id))
  t.ok(forwarded.length > 500, `${forwarded.length} forwarded`)
  t.same(
    forwarded.filter((id) => !written.has(id)),
    [],
  )
})
