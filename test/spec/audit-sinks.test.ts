import { execFile } from 'node:child_process'
import { existsSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import {
  countAudited,
  countIds,
  createStart,
  holdPipe,
  makeAuditFolder,
  makeId,
  readAudit,
  settle,
  settleWritten,
  startAuditUpstream,
} from '../support/audit.ts'
import { call } from '../support/client.ts'
import { until } from '../support/gateway.ts'
import { runRefused, runServe, startServing } from '../support/serve.ts'
import { askAtOnce } from '../support/workers.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const execute = promisify(execFile)
const toBuilt = (path: string): string => fileURLToPath(new URL(`../../dist/gateway/${path}`, import.meta.url))
const skip = process.platform === 'linux' ? false : 'looks at pipes and /dev/full'
const world = await startTestWorld(t)
const { owner } = world.users
const upstream = await startAuditUpstream(t)
const start = createStart(world, upstream)

t.test('a file that is renamed is followed, and no line is lost', async (t) => {
  const { serving, file } = await start(t, {}, { workers: 2 })
  const ids: string[] = []
  const nowhere = (): Promise<unknown> => {
    const id = makeId()
    ids.push(id)
    return call(serving.public, { path: '/nowhere', headers: { 'x-request-id': id } })
  }
  const moved = [`${file}.1`, `${file}.2`]
  for (const name of moved) {
    await askAtOnce(10, 20, nowhere)
    renameSync(file, name)
    await until(async () => {
      await askAtOnce(4, 2, nowhere)
      return existsSync(file)
    }, 'a new file')
  }
  await askAtOnce(10, 20, nowhere)
  await settleWritten(serving)
  const counts = countIds(readAudit(...moved, file))
  t.same(
    ids.filter((id) => counts.get(id) !== 1),
    [],
  )
})

t.test('SIGTERM: every line is written before the end', async (t) => {
  for (const workers of [1, 2]) {
    const { serving, file } = await start(t, {}, { workers, drain: { delayMs: 0, timeoutMs: 200 } })
    const ids: string[] = []
    const asked = askAtOnce(20, 20, () => {
      const id = makeId()
      ids.push(id)
      return call(serving.public, { path: '/public/x', headers: { ...oauth(owner), 'x-request-id': id } })
    })
    await asked
    serving.child.kill('SIGTERM')
    t.equal(await serving.ended, 0)
    t.same([...countIds(readAudit(file)).keys()].sort(), ids.sort())
  }
})

t.test('SIGTERM: a sink that is behind is waited for', { skip }, async (t) => {
  const pipe = await holdPipe(t)
  const { serving } = await start(t, { sink: pipe.path })
  await askAtOnce(20, 20, () => call(serving.public, { path: '/nowhere' }))
  const { written } = await settle(serving)
  t.ok(written < 390, 'the pipe is full')
  serving.child.kill('SIGTERM')
  await until(() => serving.log().some(({ msg }) => msg === 'draining'), 'the drain')
  pipe.read()
  t.equal(await serving.ended, 0)
  await until(() => pipe.text().split('\n').length - 1 === 400, 'every line')
})

t.test('a sink that cannot be opened ends the start with 2, and says which and why', async (t) => {
  const missing = join(makeAuditFolder(t), 'none', 'audit.jsonl')
  for (const workers of [1, 2]) {
    const serve = runServe(t, { settings: { audit: { sink: missing }, workers } })
    t.equal(await serve.ended, 2)
    t.match(serve.stderr(), /gateway\.yaml:1:\d+: audit\.sink cannot be opened: ENOENT/)
  }
  const mistaken = await runRefused(t, { settings: { audit: { sink: 'stdot' } } })
  t.equal(mistaken.code, 2)
  t.match(mistaken.stderr, /gateway\.yaml:1:\d+: audit\.sink /)
})

t.test('off: no audit is written', async (t) => {
  const serving = await startServing(t, { world, upstream: upstream.url, settings: { audit: { sink: 'off' } } })
  t.equal((await call(serving.public, { path: '/public/x', headers: oauth(owner) })).status, 200)
  t.same(await countAudited(serving).then(({ written, dropped }) => ({ written, dropped })), { written: 0, dropped: 0 })
})

t.test('lines of audit and log stay whole when several processes write into a full pipe', { skip }, async (t) => {
  // Bursts, so that lines are written together, to a reader that makes little room at a time.
  const script = `
    import { createAudit } from '${toBuilt('observe/audit/audit.js')}'
    import { openPlace } from '${toBuilt('observe/audit/sink.js')}'
    import { createLog } from '${toBuilt('observe/log/log.js')}'
    const log = createLog('info', { worker: Number(process.argv[1]), isShared: true, bufferBytes: 1e8 })
    const metrics = { countAudit: () => {}, watchAuditSink: () => {} }
    const settings = { onFull: 'drop', bufferBytes: 1e8, waitMs: 1, replica: process.argv[1] }
    const audit = createAudit(openPlace('stdout'), settings, { log, metrics, monotonicMs: () => performance.now() })
    const decision = { time: new Date(), requestId: 'x', clientAddress: 'x' }
    for (let burst = 0; burst < 20; burst++) {
      for (let line = 0; line < 100; line++) {
        log.info({ text: 'x'.repeat(100) }, 'line')
        audit.record({ ...decision, path: '/'.repeat(line * 10) })
      }
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    await audit.close(60_000)`
  const write = (worker: number): string => `"$0" --input-type=module -e "$1" ${worker} &`
  const command = `( ${write(1)} ${write(2)} wait ) | ( sleep 2; dd bs=1000 2>/dev/null )`
  const { stdout } = await execute('sh', ['-c', command, process.execPath, script], { maxBuffer: 1e8 })
  const lines = stdout.trim().split('\n')
  t.equal(lines.length, 8_000)
  t.doesNotThrow(() => lines.map((line) => JSON.parse(line)))
})
