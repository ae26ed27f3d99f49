import { generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import { readKeyBundle, writeKeyBlock } from '../../../gateway/stages/pin/key-bundle.ts'
import { readSigningKeys } from '../../../gateway/stages/pin/signing-keys.ts'
import { generatePem } from '../../../gateway/tools/cli/keys.ts'

const [first, second] = [generatePem('EdDSA'), generatePem('EdDSA')]
const hour = '2030-01-01T00:00:00.000Z'
const hourMs = Date.parse(hour)

t.test(
  'a file holds one key or several, each with its hour, and a key without an hour signs from the beginning',
  async (t) => {
    t.same(
      readKeyBundle(`${first}${writeKeyBlock(second, hourMs)}`).map(({ pem, signsFromMs }) => [pem, signsFromMs]),
      [
        [first, 0],
        [second, hourMs],
      ],
    )
    t.equal(readKeyBundle(first)[0]?.signsFromMs, 0)
  },
)

const layouts: Readonly<Record<string, string>> = {
  'line feeds of Windows': `Signs-From: ${hour}\n${first}`.replaceAll('\n', '\r\n'),
  'notes around it': `# made by hand\nSigns-From: ${hour}\nsigns from the new year\n\n${first}\nthe end\n`,
  'no last line feed': `Signs-From: ${hour}\n${first}`.trim(),
  'blank lines': `\n\nSigns-From: ${hour}\n\n\n${first}\n\n`,
  'seconds without a fraction': `Signs-From: 2030-01-01T00:00:00Z\n${first}`,
}
for (const [what, text] of Object.entries(layouts))
  t.test(`a key file with ${what} is read`, async (t) => {
    t.match(readKeyBundle(text), [{ signsFromMs: hourMs }])
    t.equal((await readSigningKeys(text, 'EdDSA')).length, 1)
  })

t.test('the text of OpenSSL for P-256, with parameters before the key, is one key', async (t) => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const parameters = '-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n'
  const key = privateKey.export({ type: 'sec1', format: 'pem' }).toString()
  const text = `${parameters}${key}Signs-From: ${hour}\n${parameters}${generatePem('ES256')}`
  t.match(await readSigningKeys(text, 'ES256'), [{ signsFromMs: 0 }, { signsFromMs: hourMs }])
})

const [begin = '', body = '', end = ''] = first.split('\n')
const publicKey = generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'pem' }).toString()
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' })
const encrypted = generateKeyPairSync('ed25519').privateKey.export({
  ...{ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'hunter2' },
})

const faults: Readonly<Record<string, readonly [text: string, message: RegExp]>> = {
  'an empty file': ['', /^block 1 is not a private key in PEM/],
  'a file of something else': ['hunter2', /^block 1 is not a private key in PEM/],
  'a block without its end': [`${begin}\n${body}\n`, /^block 1 is incomplete/],
  'a block without its beginning': [`${first}${body}\n${end}\n`, /^block 2 is incomplete/],
  'a block within a block': [`${begin}\n${first}`, /^block 1 is incomplete/],
  'an indented block': [first.replace(/^/gm, '  '), /^block 1 is incomplete/],
  'all on one line': [first.replaceAll('\n', ' '), /^block 1 is (?:not a private key in PEM|incomplete)/],
  'a damaged key': [`${first}${begin}\n${body.slice(0, 20)}\n${end}\n`, /^block 2 is not a private key in PEM/],
  'a public key': [`${first}${publicKey}`, /^block 2 is not a private key in PEM/],
  'an encrypted key': [encrypted.toString(), /^block 1 is not a private key in PEM/],
  'a key of another kind': [rsa.toString(), /^block 1 does not fit EdDSA/],
  'a key of another algorithm': [`${first}${generatePem('ES256')}`, /^block 2 does not fit EdDSA/],
  'a malformed hour': [`Signs-From: tomorrow\n${first}`, /^block 1 must have its start as "Signs-From: 2030/],
  'a day that does not exist': [`Signs-From: 2030-02-30T00:00:00Z\n${first}`, /^block 1 must have its start/],
  'an hour without a time zone': [`Signs-From: 2030-01-01T00:00:00\n${first}`, /^block 1 must have its start/],
  'an hour in another time zone': [`Signs-From: 2030-01-01T00:00:00+01:00\n${first}`, /^block 1 must have its start/],
  'another spelling': [`${first}signs_from = ${hour}\n${second}`, /^block 2 must have its start/],
  'two hours for one key': [
    `Signs-From: ${hour}\nSigns-From: ${hour}\n${first}`,
    /^block 1 has more than one Signs-From/,
  ],
  'an hour behind the last key': [`${first}Signs-From: ${hour}\n`, /^the last Signs-From has no key after it/],
}
for (const [what, [text, message]] of Object.entries(faults))
  t.test(`a key file with ${what} is refused, and the message quotes nothing of it`, async (t) => {
    const error = await readSigningKeys(text, 'EdDSA').then(
      () => new Error('it was accepted'),
      (error: Error) => error,
    )
    t.match(error.message, message)
    t.equal(error.cause, undefined)
    t.notMatch(error.message, /hunter2|tomorrow|[A-Za-z0-9+/]{24}/)
  })

// OpenSSL reads each while everything else waits: 1 MiB of keys took 4.6 s.
t.test('a key file of more than 32 keys, or of more than 32 KiB, is refused before its keys are read', async (t) => {
  t.equal(readKeyBundle(first.repeat(32)).length, 32)
  t.throws(() => readKeyBundle(first.repeat(33)), { message: 'a key file holds at most 32 keys; remove expired ones' })
  const note = (length: number) => `${'x'.repeat(length - first.length - 1)}\n${first}`
  t.equal(readKeyBundle(note(32_768)).length, 1)
  t.throws(() => readKeyBundle(note(32_769)), { message: 'a key file holds at most 32768 characters' })
})
