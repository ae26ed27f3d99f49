import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openPlace } from '../../../gateway/observe/audit/sink.ts'
import { until } from '../../support/gateway.ts'

function makeDirectory(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

function openFile(t: Test, path: string) {
  const place = openPlace(path)
  t.teardown(place.close)
  return { ...place, say: (text: string) => place.write(Buffer.from(text), 0) }
}

t.test("a new file is the owner's to write and the group's to read, and an old one is appended to", async (t) => {
  const path = join(makeDirectory(t), 'audit.jsonl')
  const mask = process.umask(0)
  t.teardown(() => process.umask(mask))
  const place = openFile(t, path)
  await place.say('first\n')
  await openFile(t, path).say('second\n')
  t.equal(readFileSync(path, 'utf8'), 'first\nsecond\n')
  t.equal(statSync(path).mode & 0o777, 0o640)
})

t.test('a file that was renamed or removed is followed by a new one', async (t) => {
  const directory = makeDirectory(t)
  const path = join(directory, 'audit.jsonl')
  const place = openFile(t, path)
  await place.say('first\n')
  t.equal(await place.follow(), false)
  renameSync(path, `${path}.1`)
  t.equal(await place.follow(), true)
  await place.say('second\n')
  rmSync(path)
  t.equal(await place.follow(), true)
  await place.say('third\n')
  writeFileSync(`${path}.new`, 'fourth\n')
  renameSync(`${path}.new`, path)
  t.equal(await place.follow(), true)
  await place.say('fifth\n')
  t.equal(readFileSync(`${path}.1`, 'utf8'), 'first\n')
  t.equal(readFileSync(path, 'utf8'), 'fourth\nfifth\n')
})

t.test('a deleted file that cannot be opened anew is an error, and gets no more lines', async (t) => {
  const directory = join(makeDirectory(t), 'logs')
  execFileSync('mkdir', [directory])
  const place = openFile(t, join(directory, 'audit.jsonl'))
  rmSync(directory, { recursive: true })
  await t.rejects(place.follow(), { code: 'ENOENT' })
})

t.test('a place that is not there cannot be opened', async (t) => {
  const directory = makeDirectory(t)
  t.throws(() => openPlace(join(directory, 'none', 'audit.jsonl')), { code: 'ENOENT' })
  t.throws(() => openPlace(directory), { code: 'EISDIR' })
})

t.test('a write to a full disk fails with ENOSPC', async (t) => {
  await t.rejects(openFile(t, '/dev/full').say('x\n'), { code: 'ENOSPC' })
})

t.test('a pipe without a reader is refused, and a write fails at once if the reader is slow or gone', async (t) => {
  const path = join(makeDirectory(t), 'pipe')
  execFileSync('mkfifo', [path])
  t.throws(() => openPlace(path), { code: 'ENXIO' })
  // The reader opens the pipe and reads nothing until the test kills it.
  const reader = spawn('sh', ['-c', 'exec <"$0"; echo open; read line <&3', path], {
    stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
  })
  t.teardown(() => reader.kill('SIGKILL'))
  await until(() => {
    try {
      openPlace(path).close()
      return true
    } catch {
      return false // the reader is not there yet
    }
  }, 'a reader')
  const place = openFile(t, path)
  const line = `${'x'.repeat(4_000)}\n`
  await t.rejects(
    (async () => {
      for (;;) await place.say(line)
    })(),
    { code: 'EAGAIN' },
  )
  reader.kill('SIGKILL')
  await once(reader, 'exit')
  await t.rejects(place.say(line), { code: 'EPIPE' })
})
