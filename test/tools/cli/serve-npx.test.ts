import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { call } from '../../support/client.ts'
import { until, writeConfiguration } from '../../support/gateway.ts'
import { testUnlessLacking } from '../../support/lacks.ts'
import { signalGroup } from '../../support/serve.ts'

const program = fileURLToPath(new URL('../../../dist/gateway/main.js', import.meta.url))
const lack = spawnSync('ps', ['-p', '1']).status === 0 ? undefined : 'there is no ps'

/** Starts a command, as npx and npm do, and outlives it. */
const launcher = `
require('node:child_process').spawn(process.argv[1], process.argv.slice(2), { stdio: 'inherit' })
setInterval(() => undefined, 1000)`

const commands = {
  alone: [process.execPath, program],
  // The shell waits for more, so that it does not give its place to the program.
  'in a shell': ['/bin/sh', '-c', '"$0" "$@"; :', process.execPath, program],
}

/** Starts a gateway behind a launcher. */
function startBehind(t: Test, command: keyof typeof commands, environment: Readonly<Record<string, string>>) {
  const config = writeConfiguration(t, { settings: { log: { level: 'info' } } })
  const args = ['-e', launcher, ...commands[command], 'serve', '--config', config]
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...environment },
  })
  t.teardown(() => signalGroup(child.pid ?? 0, 'SIGKILL'))
  let log = ''
  child.stdout.on('data', (chunk: Buffer) => {
    log += chunk.toString()
  })
  // The pipe closes when the gateway and its shell are gone too.
  const ended = once(child.stdout, 'close')
  return { child, log: () => log, ended }
}

/** A gateway behind a launcher that is killed without a chance to pass the signal on. */
async function killLauncher(t: Test, command: keyof typeof commands, environment: Readonly<Record<string, string>>) {
  const { child, log, ended } = startBehind(t, command, environment)
  await until(() => /"msg":"listening"/.test(log()), 'the gateway', 30_000)
  const port = /"admin":\{[^}]*"port":(\d+)/.exec(log())?.[1]
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
  return {
    ended,
    log,
    isAlive: () =>
      call(`http://127.0.0.1:${port}`, { path: '/healthz' }).then(
        ({ status }) => status === 200,
        () => false,
      ),
  }
}

testUnlessLacking(
  t,
  'a gateway ends with npx that is killed while it is looked for',
  async (t) => {
    const ps = ['#!/bin/sh', 'kill -KILL "$4"', 'sleep 0.2', 'exec /usr/bin/env PATH="$REAL_PATH" ps "$@"', ''].join(
      '\n',
    )
    const folder = t.testdir({ ps })
    chmodSync(`${folder}/ps`, 0o755)
    const { log, ended } = startBehind(t, 'alone', {
      npm_command: 'exec',
      PATH: `${folder}:${process.env.PATH}`,
      REAL_PATH: process.env.PATH ?? '',
    })
    await ended
    t.match(log(), /"msg":"stopped"/, 'it drains')
  },
  lack,
)

testUnlessLacking(
  t,
  'a gateway ends with npx, which says npm_command=exec, and with no other launcher',
  async (t) => {
    const others = await Promise.all([
      killLauncher(t, 'alone', {}),
      killLauncher(t, 'alone', { npm_command: 'run-script' }),
      killLauncher(t, 'in a shell', { npm_command: 'start' }),
    ])
    for (const command of ['alone', 'in a shell'] as const) {
      const { ended, log } = await killLauncher(t, command, { npm_command: 'exec' })
      await ended
      t.match(log(), /"msg":"stopped"/, `${command}: it drains`)
    }
    // Two more looks of those that looked.
    await sleep(2_000)
    for (const { isAlive, log } of others) t.ok(await isAlive(), log())
  },
  lack,
)
