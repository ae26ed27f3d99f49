import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { testUnlessLacking } from '../support/lacks.ts'
import { openTerminal, terminalLack } from '../support/terminal.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const curlLack = spawnSync('curl', ['--version']).status === 0 ? undefined : 'there is no curl'

testUnlessLacking(
  t,
  'the banner fits a terminal, and its lines work word for word',
  tryBanner,
  terminalLack ?? curlLack,
)

async function tryBanner(t: Test): Promise<void> {
  const cwd = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  t.teardown(() => rmSync(cwd, { recursive: true, force: true }))
  const terminal = openTerminal([process.execPath, `${root}dist/main.js`, 'demo'], { cwd, rows: 30, columns: 80 })
  t.teardown(terminal.stop)
  const shown = (await terminal.waitFor(/Ctrl-C stops everything\./, 60_000)).replaceAll('\r', '')
  t.match(shown, /^Starting PostgreSQL.*…\nCreating tables.*…\nStarting the gateway …\n\nSallyport demo, ready in /)

  const banner = shown.slice(shown.indexOf('\nSallyport demo')).trimEnd().split('\n')
  t.ok(banner.length <= 29, 'with the line of the prompt, 30 rows', { rows: banner.length })
  t.same(
    banner.filter((line) => line.length > 80),
    [],
    '80 columns',
  )
  t.notMatch(shown, /eyJ|oat_/, 'no credential is on the screen')

  const demo = JSON.parse(readFileSync(join(cwd, '.sallyport/demo.json'), 'utf8'))
  const pasted = banner.slice(banner.findIndex((line) => line.startsWith('Paste')) + 1, -2)
  for (const shell of ['bash', 'sh']) {
    const { stdout, stderr } = spawnSync(shell, { cwd, input: `${pasted.join('\n')}\n`, encoding: 'utf8' })
    t.same(
      [...stdout.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => status),
      ['200', '200', '401', '403', '401'],
      shell,
      { stdout },
    )
    t.equal(stderr, '')
  }

  const [, told = ''] = /^ {3}```sh\n(.*?)^ {3}```$/ms.exec(readFileSync(`${root}README.md`, 'utf8')) ?? []
  const wanted = pasted
    .map((line) => `${line.slice(2)}\n`)
    .join('')
    .replaceAll(demo.public, 'http://127.0.0.1:8080')
  t.equal(told.replace(/^ {3}/gm, ''), wanted, 'the README has the same lines')

  terminal.type('\u0003')
  t.equal(await terminal.ended, 0)
}
