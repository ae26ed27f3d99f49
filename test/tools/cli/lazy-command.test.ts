import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const root = fileURLToPath(new URL('../../..', import.meta.url))

/**
 * The program with only the package that reads its command line, away from the repository's packages, which Node would
 * find.
 */
const folder = mkdtempSync(join(tmpdir(), 'sallyport-'))
t.teardown(() => rmSync(folder, { recursive: true }))
mkdirSync(join(folder, 'node_modules'))
cpSync(join(root, 'dist'), join(folder, 'dist'), { recursive: true })
cpSync(join(root, 'package.json'), join(folder, 'package.json'))
symlinkSync(join(root, 'node_modules/commander'), join(folder, 'node_modules/commander'))

const run = (...args: readonly string[]) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(folder, 'dist/gateway/main.js'), ...args], {
    cwd: folder,
    encoding: 'utf8',
  })
  return { status, stdout, stderr }
}

t.test('help and version need no package but the one that reads the command line', async (t) => {
  for (const args of [['--help'], ['serve', '--help'], ['policy', 'explain', '--help'], ['--version']])
    t.match(run(...args), { status: 0, stderr: '' }, args.join(' '))
})

t.test('a package that is not there is named, with what to do', async (t) => {
  const { status, stderr } = run('serve')
  t.equal(status, 1)
  t.match(stderr, /^sallyport: Cannot find package '[^']+' .*\. Install the packages again/)
})
