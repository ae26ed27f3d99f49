import { createHash, randomBytes, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import t from 'tap'
import { isSameHash, parseApiToken } from '../../../gateway/stages/authenticate/api-token.ts'

const base62 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const base64url = `${base62}-_`

const encode = (text: string): string => Buffer.from(text, 'latin1').toString('base64url')
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

const draw = (alphabet = base62, length = 40): string =>
  Array.from({ length }, () => alphabet.charAt(randomInt(alphabet.length))).join('')

/** A token as the platform makes it, from `id` and `secret` before they are encoded in base64url. */
const compose = (id: string, secret: string): string => `oat_${encode(id)}.${encode(secret)}`
const withChecksum = (random: string): string => `${random}${crc32(random)}`
const random = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN'
const good = compose('7', withChecksum(random))

t.test('a token of a known text is read as its id and hash', async (t) => {
  const token = 'oat_Nw.YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXpBQkNERUZHSElKS0xNTjIzNjYzNTYwNzA'
  t.same(parseApiToken(token), {
    id: 7,
    hash: sha256('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN2366356070'),
  })
})

t.test('10,000 minted tokens are read, each as its id and the hash of its whole secret', async (t) => {
  let wrong = 0
  for (let count = 0; count < 10_000; count++) {
    const id = randomInt(1, 2_147_483_648)
    const secret = withChecksum(draw())
    const parsed = parseApiToken(compose(String(id), secret))
    if (parsed?.id !== id || parsed.hash !== sha256(secret)) wrong++
  }
  t.equal(wrong, 0)
})

t.test('secrets of the alphabet that AdonisJS draws from are read', async (t) => {
  let wrong = 0
  for (let count = 0; count < 1_000; count++) {
    const secret = withChecksum(randomBytes(30).toString('base64url'))
    if (parseApiToken(compose('1', secret))?.hash !== sha256(secret)) wrong++
  }
  t.equal(wrong, 0)
  t.ok(parseApiToken(compose('1', withChecksum('-_'.repeat(20)))))
})

t.test('a checksum of less than ten digits is read without leading zeros, and refused with them', async (t) => {
  let short = draw()
  while (crc32(short) > 99_999_999) short = draw()
  t.ok(parseApiToken(compose('1', withChecksum(short))))
  const padded = String(crc32(short)).padStart(10, '0')
  t.equal(parseApiToken(compose('1', `${short}${padded}`)), undefined)
})

t.test('any one character of the secret changed is refused', async (t) => {
  const start = good.indexOf('.') + 1
  let accepted = 0
  for (let index = start; index < good.length; index++)
    for (const character of `${base64url}.=+/ ~`) {
      const changed = `${good.slice(0, index)}${character}${good.slice(index + 1)}`
      if (changed !== good && parseApiToken(changed)) accepted++
    }
  t.equal(accepted, 0)
})

t.test('any one character of the prefix or of the dot changed is refused', async (t) => {
  for (const index of [0, 1, 2, 3, good.indexOf('.')])
    for (const character of `${base64url}.=+/ ~`) {
      const changed = `${good.slice(0, index)}${character}${good.slice(index + 1)}`
      if (changed !== good) t.equal(parseApiToken(changed), undefined, changed)
    }
})

t.test('a changed id is refused or is another id, so that a token has one spelling', async (t) => {
  const token = compose('1234567', withChecksum(random))
  for (let index = 4; index < token.indexOf('.'); index++)
    for (const character of base64url) {
      const changed = `${token.slice(0, index)}${character}${token.slice(index + 1)}`
      if (changed !== token) t.not(parseApiToken(changed)?.id, 1_234_567, changed)
    }
})

t.test('a character too many or too few is refused, wherever it stands', async (t) => {
  let accepted = 0
  for (let index = 0; index <= good.length; index++) {
    if (index < good.length && parseApiToken(good.slice(0, index) + good.slice(index + 1))) accepted++
    // Another digit may make another id, which is another token.
    for (const character of `${base64url}.= `)
      if (parseApiToken(`${good.slice(0, index)}${character}${good.slice(index)}`)?.id === 7) accepted++
  }
  t.equal(accepted, 0)
})

t.test('two characters of the secret exchanged are refused', async (t) => {
  for (let index = 0; index < 39; index++) {
    const swapped = random.slice(0, index) + random.charAt(index + 1) + random.charAt(index) + random.slice(index + 2)
    t.equal(parseApiToken(compose('7', `${swapped}${crc32(random)}`)), undefined)
  }
})

t.test('an id is a positive int4 in plain decimal', async (t) => {
  for (const id of ['1', '9', '10', '2147483647'])
    t.equal(parseApiToken(compose(id, withChecksum(random)))?.id, Number(id))
  for (const id of [
    '0',
    '00',
    '01',
    '-1',
    '+1',
    '1.0',
    '1e3',
    '0x10',
    ' 1',
    '1 ',
    '1\n',
    '',
    'a',
    '1a',
    'NaN',
    '2147483648',
    '4294967297',
    '9999999999',
    '99999999999',
    '18446744073709551617',
    '\u00b2',
    '1,2',
    "1' or '1'='1",
  ])
    t.equal(parseApiToken(compose(id, withChecksum(random))), undefined, JSON.stringify(id))
})

t.test('a secret is 40 characters and the checksum of them, and nothing else', async (t) => {
  const bad = {
    '39 characters': withChecksum(random.slice(1)),
    '41 characters': withChecksum(`${random}x`),
    'no checksum': random,
    'no random part': String(crc32('')),
    'another checksum': `${random}${(crc32(random) + 1) % 2 ** 32}`,
    'a checksum in hex': `${random}${crc32(random).toString(16)}`,
    'a checksum past 32 bits': `${random}${crc32(random) + 2 ** 32}`,
    'a checksum with a space': `${random} ${crc32(random)}`,
    'a line break after': `${withChecksum(random)}\n`,
    'a space in the random part': withChecksum(`${random.slice(1)} `),
    'a NUL in the random part': withChecksum(`${random.slice(1)}\0`),
    'a letter that is not ASCII': withChecksum(`${random.slice(1)}\u00e9`),
    nothing: '',
  }
  for (const [name, secret] of Object.entries(bad)) t.equal(parseApiToken(compose('7', secret)), undefined, name)
})

t.test('a negative checksum is refused: it is unsigned', async (t) => {
  let high = draw()
  while (crc32(high) < 2 ** 31) high = draw()
  t.ok(parseApiToken(compose('7', withChecksum(high))))
  t.equal(parseApiToken(compose('7', `${high}${crc32(high) | 0}`)), undefined)
})

t.test('only canonical base64url without padding: stray bits in the last character are refused', async (t) => {
  let seen = 0
  for (const id of ['7', '77'])
    for (let digits = 0; digits < 40; digits++) {
      const token = compose(id, withChecksum(draw()))
      for (const end of [token.indexOf('.') - 1, token.length - 1])
        for (const character of base64url) {
          const twin = `${token.slice(0, end)}${character}${token.slice(end + 1)}`
          const isTwin = twin.split('.').every((part, index) => {
            const decode = (one: string) => Buffer.from(one.replace('oat_', ''), 'base64url').toString('latin1')
            return decode(part) === decode(token.split('.')[index] ?? '')
          })
          if (twin === token || !isTwin) continue
          seen++
          if (parseApiToken(twin)) t.fail(`read a twin: ${twin}`)
        }
    }
  t.ok(seen > 100, `${seen} twins were tried`)
})

t.test('a text that is not a whole API token is refused', async (t) => {
  const [head = '', secret = ''] = good.split('.')
  for (const token of [
    '',
    'oat_',
    'oat_.',
    `oat_.${secret}`,
    `${head}.`,
    head,
    `${head}${secret}`,
    `${good}=`,
    `${head}=.${secret}`,
    `${good}.`,
    `${good}.a`,
    ` ${good}`,
    `${good} `,
    `${good}\n`,
    `\ufeff${good}`,
    good.replace('oat_', 'OAT_'),
    good.replace('oat_', 'oat-'),
    good.slice(4),
    `Bearer ${good}`,
    `oat_${good}`,
    `${good},${good}`,
    good.replace('.', '%2e'),
    good.replace('.', '..'),
    'oat_Nw.'.padEnd(100_000, 'A'),
  ])
    t.equal(parseApiToken(token), undefined, JSON.stringify(token.slice(0, 90)))
})

t.test('two hashes are the same only if both are whole', async (t) => {
  const hash = sha256('a')
  t.ok(isSameHash(hash, hash))
  t.notOk(isSameHash(hash, sha256('b')))
  t.notOk(isSameHash(hash, ''))
  t.notOk(isSameHash('', ''))
  t.notOk(isSameHash(hash.slice(0, 62), hash.slice(0, 62)))
  t.notOk(isSameHash(hash, 'z'.repeat(64)))
  t.notOk(isSameHash('z'.repeat(64), 'z'.repeat(64)))
})
