import { createPrivateKey, randomBytes } from 'node:crypto'
import t from 'tap'
import { createPageTokens } from '../../../gateway/listeners/decision/authzen/page-tokens.ts'
import { generatePem } from '../../../gateway/tools/cli/keys.ts'

const open = (pem: string) => createPageTokens({ privateKey: () => createPrivateKey(pem), drawBytes: randomBytes })

const pem = generatePem('EdDSA')
const tokens = open(pem)

t.test('another process with the same key opens a token, and one with another key does not', async (t) => {
  const token = tokens.seal('record-1', 'asker')
  t.equal(open(pem).open(token, 'asker'), 'record-1')
  t.equal(open(generatePem('EdDSA')).open(token, 'asker'), undefined)
  const elliptic = generatePem('ES256')
  t.equal(open(elliptic).open(open(elliptic).seal('7', ''), ''), '7')
})

t.test('a token is bound, and each changed character spoils it', async (t) => {
  const token = tokens.seal('record-1', 'asker')
  t.equal(tokens.open(token, 'asker'), 'record-1')
  t.equal(tokens.open(token, 'other'), undefined)
  const bytes = Buffer.from(token, 'base64url')
  for (const [index, byte] of bytes.entries()) {
    const changed = Buffer.from(bytes)
    changed[index] = byte ^ 1
    t.equal(tokens.open(changed.toString('base64url'), 'asker'), undefined, `byte ${index}`)
  }
  for (let length = 0; length < token.length; length += 7)
    t.equal(tokens.open(token.slice(0, length), 'asker'), undefined, `${length} characters`)
  t.equal(tokens.open('A'.repeat(10_000), 'asker'), undefined)
})

t.test('a token has one spelling', async (t) => {
  const token = tokens.seal('record-1', 'asker')
  const { length } = Buffer.from(token, 'base64url')
  const plain = Buffer.from(token, 'base64url').toString('base64')
  const last = token.at(-1) ?? ''
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const strayBits = `${token.slice(0, -1)}${letters[letters.indexOf(last) ^ 1]}`
  t.not(length % 3, 0, 'its last character has stray bits')
  for (const other of [
    plain,
    `${token}=`,
    `${token}\n`,
    ` ${token}`,
    `${token.slice(0, 9)}.${token.slice(9)}`,
    strayBits,
  ])
    t.equal(tokens.open(other, 'asker'), undefined, other)
})

t.test('a token tells neither its position nor the length of it', async (t) => {
  const secret = 'hidden-record'
  const token = tokens.seal(secret, 'asker')
  t.notOk(Buffer.from(token, 'base64url').toString('latin1').includes(secret))
  t.not(tokens.seal(secret, 'asker'), token, 'each one has its own nonce')
  const lengths = ['', '1', 'x'.repeat(128)].map((position) => tokens.seal(position, 'asker').length)
  t.equal(new Set(lengths).size, 1)
  for (const position of ['', 'x'.repeat(159), 'x'.repeat(160), 'é'])
    t.equal(tokens.open(tokens.seal(position, ''), ''), position)
})
