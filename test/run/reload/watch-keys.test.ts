import { mkdirSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { LogFields } from '../../../gateway/observe/log/log.ts'
import { createKeyWatch } from '../../../gateway/run/reload/watch-keys.ts'

/** A watch over one file, whose looks the test takes; a text that starts with "bad" is refused, quoting nothing. */
function holdWatch(t: Test, more: readonly string[] = []) {
  const directory = t.testdir({ key: 'first' })
  const file = join(directory, 'key')
  const adopted: (readonly string[])[] = []
  const outcomes: boolean[] = []
  const lines: LogFields[] = []
  const log = (fields: LogFields, message: string) => void lines.push({ ...fields, message })
  const look = createKeyWatch({
    texts: ['first', ...more],
    files: [file],
    apply: async (texts) => {
      if (texts[0]?.startsWith('bad')) throw new Error(`refused ${texts[0].length}`)
      adopted.push(texts)
    },
    noteOutcome: (isGood) => void outcomes.push(isGood),
    log: { request: () => undefined, info: log, warn: log, error: log },
  })
  const lookTwice = async (): Promise<void> => {
    await look()
    await look()
  }
  return { directory, file, adopted, outcomes, lines, look, lookTwice }
}

t.test('a file that does not change is not taken again', async (t) => {
  const { adopted, outcomes, lines, lookTwice, file } = holdWatch(t)
  await lookTwice()
  writeFileSync(file, 'first\n')
  await lookTwice()
  t.same([adopted, outcomes, lines], [[], [], []])
})

t.test('a changed file is taken when two looks agree, so that half a file never is', async (t) => {
  const { adopted, look, file, outcomes } = holdWatch(t)
  writeFileSync(file, 'half of the sec')
  await look()
  writeFileSync(file, 'half of the second')
  await look()
  t.same(adopted, [])
  await look()
  await look()
  t.same(adopted, [['half of the second']])
  t.same(outcomes, [true])
})

t.test('an edit is seen that leaves size and date of the file as they were', async (t) => {
  const { adopted, lookTwice, file } = holdWatch(t)
  utimesSync(file, 1, 1)
  await lookTwice()
  writeFileSync(file, 'other')
  utimesSync(file, 1, 1)
  await lookTwice()
  t.same(adopted, [['other']])
})

t.test('a rename over the file and a symbolic link that is turned are followed', async (t) => {
  const { adopted, lookTwice, file, directory } = holdWatch(t)
  writeFileSync(join(directory, 'beside'), 'renamed')
  renameSync(join(directory, 'beside'), file)
  await lookTwice()
  // As a kubelet does it: the file is a link through ..data, which is a link to the folder of one version.
  for (const version of ['v1', 'v2']) {
    mkdirSync(join(directory, version))
    writeFileSync(join(directory, version, 'key'), version)
  }
  symlinkSync('v1', join(directory, '..data'))
  rmSync(file)
  symlinkSync(join('..data', 'key'), file)
  await lookTwice()
  symlinkSync('v2', join(directory, '..data_tmp'))
  renameSync(join(directory, '..data_tmp'), join(directory, '..data'))
  await lookTwice()
  t.same(adopted, [['renamed'], ['v1'], ['v2']])
})

t.test('a bad file is told once and keeps what is in use; a good one is taken again', async (t) => {
  const { adopted, lookTwice, file, outcomes, lines } = holdWatch(t)
  writeFileSync(file, 'bad hunter2')
  await lookTwice()
  await lookTwice()
  t.same(adopted, [])
  t.equal(outcomes.at(-1), false)
  t.match(lines, [{ message: /the last good ones stay in use/, error: { message: 'refused 11' } }])
  t.equal(lines.length, 1)
  t.notMatch(JSON.stringify(lines), /hunter2/)
  writeFileSync(file, 'second')
  await lookTwice()
  t.same(adopted, [['second']])
  t.equal(outcomes.at(-1), true)
  t.equal(lines.length, 2)
})

t.test('a bad file that becomes good by the clock alone is taken then', async (t) => {
  const { file, directory } = holdWatch(t)
  writeFileSync(file, 'later')
  let isTime = false
  const adopted: unknown[] = []
  const log = {
    request: () => undefined,
    info: () => undefined,
    warn: () => undefined,
    error: () => undefined,
  }
  const look = createKeyWatch({
    texts: ['first'],
    files: [join(directory, 'key')],
    apply: async (texts) => {
      if (!isTime) throw new Error('no key signs yet')
      adopted.push(texts)
    },
    noteOutcome: () => undefined,
    log,
  })
  await look()
  await look()
  t.same(adopted, [])
  isTime = true
  await look()
  t.same(adopted, [['later']])
})

t.test('a file that is gone is reported by its name, and is not taken again if it comes back as it was', async (t) => {
  const { adopted, lookTwice, look, file, outcomes, lines } = holdWatch(t)
  rmSync(file)
  await look()
  t.same(outcomes, [], 'a file that is missing for a moment is not reported')
  await lookTwice()
  t.same(outcomes.at(-1), false)
  t.match(lines, [{ error: { message: `file ${file} cannot be read: ENOENT` } }])
  writeFileSync(file, 'first')
  await lookTwice()
  t.same(outcomes.at(-1), true)
  t.same(adopted, [])
})

t.test('a key that no file holds stays beside one from a file', async (t) => {
  const { adopted, lookTwice, file } = holdWatch(t, ['inline'])
  writeFileSync(file, 'second')
  await lookTwice()
  t.same(adopted, [['second', 'inline']])
})

t.test('a file that is too large is not read into memory, and the last keys go on', async (t) => {
  const { file, lookTwice, adopted, outcomes, lines } = holdWatch(t)
  writeFileSync(file, 'x'.repeat(1_048_577))
  await lookTwice()
  t.same([adopted, outcomes], [[], [false]])
  t.match(lines, [{ error: { message: `file ${file} cannot be read: EFBIG` } }])
  writeFileSync(file, 'x'.repeat(1_048_576))
  await lookTwice()
  t.equal(adopted[0]?.[0]?.length, 1_048_576)
})
