import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
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

t.test('the last line counts tests, not assertions, of all files', async (t) => {
  const { code, last, text } = await runTests(t, {
    'one.ts': `${head}const of: number = 2
t.test('a', async (t) => { t.ok(true); t.ok(true) })
t.test('b', async (t) => { await t.test('c', async (t) => t.equal(of, 2)); await t.test('d', async (t) => t.pass()) })`,
    'two.ts': `${head}t.test('e', { skip: 'for a reason' }, async () => undefined)`,
  })
  t.equal(last, '3 passed, 0 failed, 1 skipped')
  t.equal(code, 0)
  t.match(text, /skipped: .*two\.ts > e: for a reason/)
})

t.test('a failure is counted, told with its place, and ends with 1', async (t) => {
  const { code, last, text } = await runTests(t, {
    'one.ts': `${head}type Lines = readonly string[]
t.test('good', async (t) => t.pass())
t.test('bad', async (t) => {
  const lines: Lines = ['x']
  t.same(lines, ['y'])
})`,
  })
  t.equal(last, '1 passed, 1 failed, 0 skipped')
  t.equal(code, 1)
  t.match(text, /not ok .*one\.ts > bad/)
  t.match(text, /one\.ts.*"lineNumber":6/, 'the line of the source, not of what was compiled')
})

for (const [what, body, fault] of [
  ['throws before its first test', "throw new Error('early')", /one\.ts/],
  ['ends its process', 'process.exit(3)', /one\.ts/],
  ['is killed', "process.kill(process.pid, 'SIGKILL')", /one\.ts/],
] as const)
  t.test(`a file that ${what} is a failure`, async (t) => {
    const { code, last, text } = await runTests(t, { 'one.ts': `${head}t.test('a', async (t) => t.pass())\n${body}` })
    t.match(last, / [1-9] failed, /)
    t.equal(code, 1)
    t.match(text, fault)
  })

t.test('the leftovers of a file delay no other', async (t) => {
  const leave = `import { spawn } from 'node:child_process'
t.test('a', async (t) => { spawn('sleep', ['15'], { stdio: 'inherit', detached: true }).unref(); t.pass() })`
  const { last } = await runTests(t, { 'one.ts': `${head}${leave}` })
  t.equal(last, '1 passed, 0 failed, 0 skipped')
})

t.test('a file that has changed is compiled anew', async (t) => {
  const { last, folder } = await runTests(t, { 'one.ts': `${head}t.test('a', async (t) => t.pass())` })
  t.equal(last, '1 passed, 0 failed, 0 skipped')
  const file = join(folder, 'one.ts')
  rmSync(file)
  writeFileSync(file, `${head}t.test('a', async (t) => t.fail())`)
  const child = spawn(process.execPath, ['scripts/test.js', relative(root, file)], { cwd: root, stdio: 'ignore' })
  t.same(await once(child, 'close'), [1, null])
})
