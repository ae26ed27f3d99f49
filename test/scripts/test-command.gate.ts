import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Runs `npm test` with files of these texts; they need what the repository has, and so lie within it. */
async function runTests(t: Test, files: Readonly<Record<string, string>>) {
  const folder = t.testdir({ ...files })
  const names = Object.keys(files).map((name) => relative(root, join(folder, name)))
  const child = spawn(process.execPath, ['scripts/test.js', ...names], {
    cwd: root,
    env: { ...process.env, TEST_JOBS: '1' },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  let text = ''
  child.stdout.on('data', (chunk: Buffer) => {
    text += chunk.toString()
  })
  const [code] = await once(child, 'close')
  return { code, text, folder, last: text.trimEnd().split('\n').at(-1) }
}

const head = "import t from 'tap'\n"

t.test('the last line counts tests, not assertions, of all files, and a file waits for no descendant', async (t) => {
  const { code, last, text, folder } = await runTests(t, {
    'one.ts': `${head}const of: number = 2
t.test('a', async (t) => { t.ok(true); t.ok(true) })
t.test('b', async (t) => { await t.test('c', async (t) => t.equal(of, 2)); await t.test('d', async (t) => t.pass()) })`,
    'two.ts': `${head}import { spawn } from 'node:child_process'
t.test('e', { skip: 'for a reason' }, async () => undefined)
t.test('f', async (t) => { spawn('sleep', ['15'], { stdio: 'inherit', detached: true }).unref(); t.pass() })`,
  })
  t.equal(last, '4 passed, 0 failed, 1 skipped')
  t.equal(code, 0)
  t.match(text, /skipped: .*two\.ts > e: for a reason/)

  await t.test('a file that has changed is compiled anew', async (t) => {
    const file = join(folder, 'one.ts')
    rmSync(file)
    writeFileSync(file, `${head}t.test('a', async (t) => t.fail())`)
    const child = spawn(process.execPath, ['scripts/test.js', relative(root, file)], { cwd: root, stdio: 'ignore' })
    t.same(await once(child, 'close'), [1, null])
  })
})

t.test('a failure is counted and told with its place, and the files after it run', async (t) => {
  const passes = "t.test('a', async (t) => t.pass())"
  const { code, last, text } = await runTests(t, {
    'bad.ts': `${head}type Lines = readonly string[]
t.test('good', async (t) => t.pass())
t.test('bad', async (t) => {
  const lines: Lines = ['x']
  t.same(lines, ['y'])
})`,
    'stray.ts': `${head}t.test('stray', async (t) => {
  setTimeout(() => { throw new Error('of a timer') })
  await new Promise((resolve) => setTimeout(resolve, 100))
})
t.test('after', async (t) => t.pass())`,
    'throws.ts': `${head}${passes}\nthrow new Error('early')`,
    'exits.ts': `${head}${passes}\nprocess.exit(3)`,
    'killed.ts': `${head}${passes}\nprocess.kill(process.pid, 'SIGKILL')`,
    'last.ts': `${head}${passes}`,
  })
  t.match(last, / [4-9] failed, 0 skipped/)
  t.equal(code, 1)
  t.match(text, /not ok .*bad\.ts > bad/)
  t.match(text, /bad\.ts.*"lineNumber":6/, 'the line of the source, not of what was compiled')
  t.match(text, /not ok .*stray\.ts > stray > of a timer/, 'a test fails by an error that it does not await')
  t.match(text, /not ok .*throws\.ts[\s\S]*early/)
  t.match(text, /not ok .*exits\.ts\n {2}fault: ended with \d/)
  t.match(text, /not ok .*killed\.ts\n {2}fault: ended with SIGKILL/)
  t.match(text, /ok {4} .*last\.ts/)
})

t.test('each file that begins early is there', async (t) => {
  const list: Readonly<{ longest: readonly string[] }> = await import(`${root}scripts/longest-tests.js`)
  t.ok(list.longest.length > 20)
  t.same(
    list.longest.filter((file) => !existsSync(join(root, file))),
    [],
  )
})
