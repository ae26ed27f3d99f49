import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { findLackingFixes } from '../../../gateway/configuration/node-releases.ts'
import { runCommand, runProcess } from '../../support/command-line.ts'
import { testUnlessLacking } from '../../support/lacks.ts'
import { openTerminal, terminalLack } from '../../support/terminal.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const program = `${root}dist/gateway/main.js`
const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'))
const red = '\u001b[31m'
const faulty = ['serve', '--config', 'nowhere.yaml']

t.test('the version is told in one line, and as JSON with all that it goes with', async (t) => {
  for (const words of [['version'], ['--version'], ['-V']])
    t.match(await runCommand(words), { code: 0, stdout: `${version}\n` }, words.join(' '))
  const facts = JSON.parse((await runCommand(['version', '--json'])).stdout)
  t.match(facts, { version, node: process.version, policy: 1, schema: { own: Number, adopted: Number } })
  t.ok(facts.commit === null || /^[0-9a-f]{40}$/.test(facts.commit), 'a commit, or none that is known')
  const { code, stderr } = await runProcess(['version'])
  const lack = findLackingFixes(process.version, new Date())
  t.same([code, stderr], [0, lack ? `sallyport: Node ${process.version} is for trying only, ${lack}\n` : ''])
})

t.test('a pipe gets no color, unless it is asked for', async (t) => {
  const plain = await runCommand(faulty)
  t.match(plain.stderr, /^sallyport: /)
  t.notMatch(plain.stderr, '\u001b')
  for (const words of [faulty, ['nope']])
    t.ok((await runCommand(words, { env: { FORCE_COLOR: '1' } })).stderr.startsWith(red), words.join(' '))
  const help = await runCommand(['--help'])
  t.notMatch(help.stdout, '\u001b')
})

testUnlessLacking(
  t,
  'a terminal gets errors in red, unless NO_COLOR is set',
  async (t) => {
    for (const [env, wanted] of [
      [{}, red],
      [{ NO_COLOR: '1' }, 'sallyport: '],
      [{ FORCE_COLOR: '0' }, 'sallyport: '],
    ] as const) {
      const terminal = openTerminal([process.execPath, program, ...faulty], { env })
      t.equal(await terminal.ended, 2)
      t.ok(terminal.shown().startsWith(wanted), JSON.stringify(env))
    }
  },
  terminalLack,
)
