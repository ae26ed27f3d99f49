import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { testUnlessLacking } from '../support/lacks.ts'
import { openTerminal, terminalLack } from '../support/terminal.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const curlLack = spawnSync('curl', ['--version']).status === 0 ? undefined : 'there is no curl'
const shells = ['sh', 'bash', 'dash', 'zsh'].filter((shell) => spawnSync(shell, ['-c', ':']).status === 0)

testUnlessLacking(
  t,
  'the banner fits a terminal, and each of its calls works alone, word for word',
  tryBanner,
  terminalLack ?? curlLack,
)

async function tryBanner(t: Test): Promise<void> {
  const cwd = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  t.teardown(() => rmSync(cwd, { recursive: true, force: true }))
  await Promise.all([8080, 8081, 9090].map((port) => takePort(t, port)))
  const terminal = openTerminal([process.execPath, `${root}dist/gateway/main.js`, 'demo'], {
    cwd,
    rows: 30,
    columns: 80,
  })
  t.teardown(terminal.stop)
  const shown = (await terminal.waitFor(/Ctrl-C stops everything\./, 60_000)).replaceAll('\r', '')
  t.match(
    shown,
    /^Starting PostgreSQL.*…\n(?:.*\n)*Creating tables.*…\n(?:.*\n)*Starting the gateway …\n(?:.*\n)*Sallyport demo, ready in /,
  )

  const banner = shown.slice(shown.indexOf('\nSallyport demo')).trimEnd().split('\n')
  t.ok(banner.length <= 29, 'with the line of the prompt, 30 rows', { rows: banner.length })
  t.same(
    banner.filter((line) => line.length > 80),
    [],
    '80 columns',
  )
  t.match(shown, /port \d+ is taken/, 'also with the longest notes')
  t.notMatch(shown, /eyJ|oat_/, 'no credential is on the screen')

  const demo = JSON.parse(readFileSync(join(cwd, '.sallyport/demo.json'), 'utf8'))
  const type = (shell: string, input: string) => spawnSync(shell, { cwd, input: `${input}\n`, encoding: 'utf8' })
  const [, print = ''] = /^ {2}credentials {2}in \.sallyport\/demo\.json; this prints one:\n +(.*)$/m.exec(shown) ?? []
  t.equal(type('sh', print).stdout, `${demo.users.owner.jwt}\n`)

  const pasted = banner.slice(banner.findIndex((line) => line.startsWith('Paste')) + 1, -2)
  const calls = pasted
    .join('\n')
    .split(/^ {2}#.*\n/m)
    .slice(1)
  t.equal(calls.length, 5)
  for (const shell of shells) {
    const statuses = calls.map((call) => {
      const { stdout, stderr } = type(shell, call)
      t.equal(stderr, '')
      return /^HTTP\/1\.1 (\d{3}) /.exec(stdout)?.[1]
    })
    t.same(statuses, ['200', '200', '401', '403', '401'], shell)
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

/** Takes the port, unless another program has it. */
async function takePort(t: Test, port: number): Promise<void> {
  const server = createServer()
  await new Promise((resolve) => server.once('error', resolve).listen(port, '127.0.0.1', () => resolve(undefined)))
  t.teardown(() => server.close())
}
