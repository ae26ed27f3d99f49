import { chmodSync, existsSync, lstatSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readSigningKeys } from '../../../gateway/stages/pin/signing-keys.ts'
import { generatePem } from '../../../gateway/tools/cli/keys.ts'
import { replaceFile } from '../../../gateway/tools/cli/replace-file.ts'
import { type RotationOptions, rotateBundle } from '../../../gateway/tools/cli/rotate-bundle.ts'

const startMs = Date.parse('2030-01-01T00:00:00.000Z')
const minutes = (count: number): number => count * 60_000

const rotate = (text: string, atMs: number, options: Partial<RotationOptions> = {}) =>
  rotateBundle(text, { generatePem, nowMs: startMs + atMs, afterMs: minutes(5), isForced: false, ...options })

const kidsOf = async (text: string) => (await readSigningKeys(text, 'EdDSA')).map(({ kid }) => kid)

t.test('a rotation adds one key behind the others, which signs after a while', async (t) => {
  const old = generatePem('EdDSA')
  const { text, fresh, current, dropped, algorithm } = await rotate(old, 0)
  t.equal(algorithm, 'EdDSA')
  t.same(await kidsOf(text), [...(await kidsOf(old)), fresh.kid])
  t.same([current.kid], await kidsOf(old))
  t.equal(fresh.signsFromMs, startMs + minutes(5))
  t.same(dropped, [])
  t.ok(text.startsWith(old), 'what was there is as it was')
})

t.test('the new key is of the old one’s algorithm', async (t) => {
  const { algorithm, text } = await rotate(generatePem('ES256'), 0)
  t.equal(algorithm, 'ES256')
  t.equal((await readSigningKeys(text, 'ES256')).length, 2)
})

t.test('a key is dropped once it has been superseded for ten minutes, not before', async (t) => {
  const first = await rotate(generatePem('EdDSA'), 0)
  const early = await rotate(first.text, minutes(5 + 10))
  t.same(early.dropped, [])
  t.equal((await kidsOf(early.text)).length, 3)
  const late = await rotate(first.text, minutes(5 + 10) + 1)
  t.same(
    late.dropped.map(({ kid }) => kid),
    [first.current.kid],
  )
  t.same(await kidsOf(late.text), [first.fresh.kid, late.fresh.kid])
})

t.test('many rotations leave no more than what may still be needed', async (t) => {
  let text = generatePem('EdDSA')
  for (let round = 0; round < 5; round++) text = (await rotate(text, minutes(60 * round))).text
  t.equal((await kidsOf(text)).length, 2)
})

t.test('a rotation under way is told with its hour, and can be replaced by force', async (t) => {
  const { text, fresh, current } = await rotate(generatePem('EdDSA'), 0)
  await t.rejects(rotate(text, minutes(4)), {
    message: `a rotation is under way: key ${fresh.kid} signs from 2030-01-01T00:05:00.000Z; wait until then, or replace that key with --force`,
  })
  const forced = await rotate(text, minutes(4), { isForced: true })
  t.same(
    forced.dropped.map(({ kid }) => kid),
    [fresh.kid],
  )
  t.same(await kidsOf(forced.text), [current.kid, forced.fresh.kid])
  t.same((await rotate(text, minutes(5))).dropped, [], 'its hour has come: it is no longer under way')
})

t.test('a rotation without a delay signs at once, and the newest of several at one moment signs', async (t) => {
  const first = await rotate(generatePem('EdDSA'), 0, { afterMs: 0 })
  t.equal(first.fresh.signsFromMs, startMs)
  const second = await rotate(first.text, 0, { afterMs: 0 })
  t.equal(second.fresh.signsFromMs, startMs + 1)
})

t.test('an operator’s notes stay', async (t) => {
  const note = '# since the audit of spring'
  const { text } = await rotate(`${note}\n${generatePem('EdDSA')}`, 0)
  t.ok(text.includes(note))
})

const ahead = `Signs-From: 2031-01-01T00:00:00Z\n${generatePem('EdDSA')}`
const once = generatePem('EdDSA')
for (const [what, text, message] of [
  ['is no key file', 'hunter2', /^block 1 is not a private key/],
  [
    'holds a key that cannot sign',
    generatePem('EdDSA').replace(/M\w{10}/, 'MAAAAAAAAAA'),
    /^its first key is neither EdDSA nor/,
  ],
  ['mixes algorithms', `${generatePem('EdDSA')}${generatePem('ES256')}`, /^block 2 does not fit EdDSA/],
  ['holds a key twice', `${once}${once}`, /^a key is listed twice/],
  ['has no key that signs now', ahead, /^no key may sign yet/],
] as const)
  t.test(`a file that ${what} is not rotated`, async (t) => {
    await t.rejects(rotate(text, 0, { isForced: true }), { message })
  })

t.test('a file is replaced whole, for its readers alone, and nothing is left beside it', async (t) => {
  const directory = t.testdir({ key: 'old', link: t.fixture('symlink', 'key') })
  const file = join(directory, 'key')
  chmodSync(file, 0o644)
  const inode = statSync(file).ino
  await replaceFile(join(directory, 'link'), async (old) => ({ text: `${old} and new` }))
  t.equal(readFileSync(file, 'utf8'), 'old and new')
  t.equal(statSync(file).mode & 0o777, 0o640, 'a group keeps what it had, the world does not')
  t.not(statSync(file).ino, inode, 'by a rename')
  t.ok(lstatSync(join(directory, 'link')).isSymbolicLink())
  t.same(readdirSync(directory).sort(), ['key', 'link'])
  chmodSync(file, 0o600)
  await replaceFile(file, async () => ({ text: 'x' }))
  t.equal(statSync(file).mode & 0o777, 0o600)
})

t.test('a change that fails leaves the file as it was', async (t) => {
  const directory = t.testdir({ key: 'old' })
  await t.rejects(
    replaceFile(join(directory, 'key'), async () => {
      throw new Error('no')
    }),
    { message: 'no' },
  )
  t.equal(readFileSync(join(directory, 'key'), 'utf8'), 'old')
  t.same(readdirSync(directory), ['key'])
})

t.test('one of two changes at the same time is kept out, and loses nothing of the other', async (t) => {
  const directory = t.testdir({ key: '0' })
  const file = join(directory, 'key')
  const results = await Promise.allSettled(
    [1, 2, 3].map((part) => replaceFile(file, async (old) => ({ text: `${old}${part}` }))),
  )
  const done = results.filter(({ status }) => status === 'fulfilled').length
  t.equal(readFileSync(file, 'utf8').length, 1 + done)
  t.notOk(existsSync(`${file}.new`))
  writeFileSync(`${file}.new`, '')
  await t.rejects(
    replaceFile(file, async () => ({ text: '' })),
    { message: /another change is under way/ },
  )
  t.ok(existsSync(`${file}.new`), 'whosever it is, it stays')
})
