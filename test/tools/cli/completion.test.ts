import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { runCommand } from '../../support/command-line.ts'
import { testUnlessLacking } from '../../support/lacks.ts'
import { openTerminal, terminalLack } from '../../support/terminal.ts'

const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
symlinkSync(fileURLToPath(new URL('../../../dist/gateway/main.js', import.meta.url)), join(folder, 'sallyport'))
writeFileSync(join(folder, 'gateway-of-mine.yaml'), '')
const PATH = `${folder}:${process.env.PATH}`

const has = (shell: string): boolean => spawnSync(shell, ['--version']).status === 0
const lackOf = (shell: string): string | undefined => (has(shell) ? undefined : `there is no ${shell}`)

const ask = (shell: string, args: readonly string[]) => {
  const { stdout, stderr } = spawnSync(shell, args, { cwd: folder, env: { ...process.env, PATH }, encoding: 'utf8' })
  return { words: stdout.split('\n').filter((line) => line !== ''), stderr }
}

const asked = [
  ['tok', ['token', 'tokens']],
  ['keys ', ['generate', 'rotate', 'help']],
  ['tokens mint --sc', ['--scope']],
  ['policy check --s', ['--strict']],
  ['serve --config gateway-of', ['gateway-of-mine.yaml']],
] as const

testUnlessLacking(
  t,
  'bash completes commands, options and files',
  async (t) => {
    writeFileSync(join(folder, 'c.bash'), (await runCommand(['completion', 'bash'])).stdout)
    const complete = `source c.bash; read -ra COMP_WORDS <<< "$1"; [[ $1 == *' ' ]] && COMP_WORDS+=('')
      COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _sallyport; printf '%s\\n' "\${COMPREPLY[@]}"`
    for (const [line, words] of asked.slice(0, 4)) {
      const said = ask('bash', ['--norc', '-c', complete, 'bash', `sallyport ${line}`])
      t.same([...said.words].sort(), [...words, ...(line.endsWith(' ') ? ['--help'] : [])].sort(), line)
      t.equal(said.stderr, '')
    }
  },
  lackOf('bash'),
)

testUnlessLacking(
  t,
  'in a terminal, a Tab completes, and runs nothing that stands on the line',
  async (t) => {
    const terminal = openTerminal(['bash', '--norc', '--noprofile', '-i'], { cwd: folder, env: { PATH, PS1: '$ ' } })
    t.teardown(terminal.stop)
    terminal.type('source <(sallyport completion bash); echo sourced=$?\n')
    await terminal.waitFor(/sourced=0/)
    terminal.type('sallyport polic\tcheck --pol\t')
    await terminal.waitFor(/sallyport policy check --policies /)
    terminal.type('"$(touch ran)" --con\tgateway-of\t')
    await terminal.waitFor(/--config gateway-of-mine\.yaml/)
    t.notOk(existsSync(join(folder, 'ran')))
  },
  lackOf('bash') ?? terminalLack,
)

testUnlessLacking(
  t,
  'zsh completes commands, options and files',
  async (t) => {
    const terminal = openTerminal(['zsh', '-f', '-i'], { cwd: folder, env: { PATH } })
    t.teardown(terminal.stop)
    terminal.type('autoload -U compinit && compinit -D; source <(sallyport completion zsh); echo sourced=$?\n')
    await terminal.waitFor(/\nsourced=0/)
    terminal.type('sallyport polic\tcheck --str\t')
    await terminal.waitFor(/--strict /)
    terminal.type('"$(touch ran)" --con\tgateway-of\t')
    await terminal.waitFor(/gateway-of-mine\.yaml/)
    terminal.type('\u0015sallyport tok\t\t')
    await terminal.waitFor(/tokens +-- Manage API tokens/)
    t.notOk(existsSync(join(folder, 'ran')))
  },
  lackOf('zsh') ?? terminalLack,
)

testUnlessLacking(
  t,
  'fish completes commands, options and files',
  async (t) => {
    for (const [line, words] of asked) {
      const said = ask('fish', ['-N', '-c', `sallyport completion fish | source; complete -C 'sallyport ${line}'`])
      t.same(said.words.map((word) => word.split('\t')[0]).sort(), [...words].sort(), line)
    }
  },
  lackOf('fish'),
)

t.test('an unknown shell is refused, by the names of the known', async (t) => {
  for (const shell of ['powershell', '__proto__'])
    t.match(await runCommand(['completion', shell]), { code: 2, stdout: '', stderr: /use one of bash, zsh, fish/ })
})
