import { mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createCachedFileReader } from '../../../gateway/run/reload/cached-file-reader.ts'

/** Reads a folder's files by a clock that is so far ahead, and counts how often one is opened. */
function begin(t: Test, aheadMs: number) {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-files-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const clock = { aheadMs, opened: 0 }
  const read = createCachedFileReader({
    nowMs: () => Date.now() + clock.aheadMs,
    open: (file) => {
      clock.opened += 1
      return readFile(file, 'utf8')
    },
  })
  return { folder, file: join(folder, 'a'), clock, read }
}

t.test('a file that has not changed for a while is opened only once in five seconds', async (t) => {
  const { file, clock, read } = begin(t, 60_000)
  writeFileSync(file, 'one')
  for (let count = 0; count < 5; count++) t.equal(await read(file), 'one')
  t.equal(clock.opened, 1)
  clock.aheadMs += 5_000
  t.equal(await read(file), 'one')
  t.equal(clock.opened, 2)
  clock.aheadMs -= 60_000
  t.equal(await read(file), 'one')
  t.equal(clock.opened, 3, 'a clock that was turned back proves nothing')
})

t.test('a change is seen at once, whatever made it', async (t) => {
  const { folder, file, clock, read } = begin(t, 60_000)
  writeFileSync(file, 'one')
  t.equal(await read(file), 'one')
  writeFileSync(file, 'two')
  t.equal(await read(file), 'two', 'an edit in place that leaves the length')
  writeFileSync(join(folder, 'b'), '333')
  renameSync(join(folder, 'b'), file)
  t.equal(await read(file), '333', 'a rename')
  writeFileSync(join(folder, 'c'), '444')
  rmSync(file)
  await t.rejects(read(file), { code: 'ENOENT' })
  symlinkSync('c', file)
  t.equal(await read(file), '444', 'a link')
  t.equal(clock.opened, 4)
})

t.test('no change is missed, however many come within one tick of the clock', async (t) => {
  const { file, clock, read } = begin(t, 0)
  for (let count = 100; count < 400; count++) {
    writeFileSync(file, String(count))
    t.equal(await read(file), String(count))
    t.equal(await read(file), String(count))
  }
  t.equal(clock.opened, 600, 'what was changed just now is opened each time')
})
