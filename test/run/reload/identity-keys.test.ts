import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Configuration } from '../../../gateway/configuration/configuration.ts'
import type { Log } from '../../../gateway/observe/log/log.ts'
import { createMetrics } from '../../../gateway/observe/metrics/metrics.ts'
import type { Path } from '../../../gateway/policy/document.ts'
import { startKeys } from '../../../gateway/run/reload/identity-keys.ts'
import { writeKeyBlock } from '../../../gateway/stages/pin/key-bundle.ts'
import { readSigningKeys } from '../../../gateway/stages/pin/signing-keys.ts'
import { generatePem } from '../../../gateway/tools/cli/keys.ts'
import { until } from '../../support/gateway.ts'

const startMs = Date.parse('2030-01-01T00:00:00.000Z')

/** The identity keys over files of these contents, with the clock in the test's hand. */
async function start(t: Test, contents: readonly string[]) {
  const directory = t.testdir({})
  const files = contents.map((text, index) => {
    const file = join(directory, `${index}.pem`)
    writeFileSync(file, text)
    return file
  })
  const clock = { seconds: 0, reads: 0 }
  const messages: string[] = []
  const note = (_: unknown, message: string) => void messages.push(message)
  const log: Log = { request: () => undefined, info: note, warn: note, error: note }
  const problemAt = (path: Path, message: string) => ({ file: 'gateway.yaml', line: 3, column: path.length, message })
  const identity = { keys: contents, keyFiles: files, algorithm: 'EdDSA' }
  const keys = await startKeys({ identity, problemAt } as unknown as Configuration, {
    log,
    metrics: createMetrics(),
    now: () => {
      clock.reads++
      return new Date(startMs + clock.seconds * 1_000)
    },
  })
  t.teardown(keys.stop)
  /** Lets the keys be looked after at a moment of the clock. */
  const turnTo = async (seconds: number): Promise<void> => {
    clock.seconds = seconds
    const { reads } = clock
    await until(() => clock.reads > reads, 'a look at the clock')
  }
  return { keys, files, messages, clock, turnTo }
}

const kidsOf = async (text: string) => (await readSigningKeys(text, 'EdDSA')).map(({ kid }) => kid)

t.test('a replica without requests publishes a withdrawn key as long as those that signed with it', async (t) => {
  const [old, fresh] = [generatePem('EdDSA'), writeKeyBlock(generatePem('EdDSA'), startMs + 70_000)]
  const { keys, files, messages, turnTo } = await start(t, [`${old}${fresh}`])
  const [file = ''] = files
  const [oldKid = '', freshKid = ''] = await kidsOf(`${old}${fresh}`)
  await turnTo(69)
  await turnTo(100)
  t.ok(messages.includes('identity signing key changed'))
  writeFileSync(`${file}.new`, fresh)
  renameSync(`${file}.new`, file)
  await until(() => messages.includes('identity keys reloaded'), 'the reload')
  t.same(
    keys.published().keys.map(({ kid }) => kid),
    [freshKid, oldKid],
  )
})

t.test('once stopped, files are looked at no more', async (t) => {
  const { keys, clock } = await start(t, [generatePem('EdDSA')])
  await until(() => clock.reads > 2, 'a look')
  keys.stop()
  await new Promise((resolve) => setTimeout(resolve, 100))
  const { reads } = clock
  await new Promise((resolve) => setTimeout(resolve, 1_100))
  t.equal(clock.reads, reads)
})

t.test('keys that cannot serve end the start with the entry, the block and what to do', async (t) => {
  const key = generatePem('EdDSA')
  for (const [contents, message] of [
    [
      ['hunter2'],
      /^gateway\.yaml:3:3: identity\.keys: block 1 is not a private key.*Run "sallyport keys generate" to make one\.$/,
    ],
    [
      [key, `${generatePem('EdDSA')}${generatePem('ES256')}`],
      /^gateway\.yaml:3:3: identity\.keys: block 2 does not fit EdDSA/,
    ],
    [[key, key], /identity\.keys: a key is listed twice/],
    [[`Signs-From: 2999-01-01T00:00:00Z\n${key}`], /identity\.keys: no key may sign yet/],
  ] as const)
    await t.rejects(start(t, contents), { name: 'ConfigurationError', message })
})
