import { generateKeyPairSync } from 'node:crypto'
import { exportJWK, generateKeyPair, type JWK } from 'jose'
import t from 'tap'
import { usableKeys } from '../../../../gateway/stages/authenticate/jwks/usable-keys.ts'
import { createSigner, holdKeySet } from '../../../support/key-set.ts'

const [first, second] = await Promise.all([createSigner('first'), createSigner('second')])

t.test('RSA keys are used from 2048 bits on', async (t) => {
  const { kty, n, e } = await exportJWK((await generateKeyPair('RS256', { extractable: true })).publicKey)
  t.equal(usableKeys([{ kty, n, e } as JWK]).length, 1)
  const modulus = Buffer.from(String(n), 'base64url')
  const withModulus = (bytes: Buffer): JWK => ({ kty: 'RSA', n: bytes.toString('base64url'), e: 'AQAB' })
  const halved = Buffer.from(modulus)
  halved[0] = 0x7f
  t.equal(usableKeys([withModulus(halved)]).length, 0, '2047 bits')
  t.equal(usableKeys([withModulus(Buffer.concat([Buffer.alloc(8), halved]))]).length, 0, 'zeros before it do not count')
  t.equal(usableKeys([withModulus(modulus.subarray(128))]).length, 0, '1024 bits')
  const widest = Buffer.concat([modulus, ...Array.from({ length: 7 }, () => modulus)])
  t.equal(usableKeys([withModulus(widest)]).length, 1, '16384 bits')
  t.equal(
    usableKeys([withModulus(Buffer.concat([widest, modulus.subarray(0, 8)]))]).length,
    0,
    'more than any verifies by',
  )
})

t.test('RSA keys with an exponent of 0, 1, 2 or an even one are not used', async (t) => {
  const { n } = await exportJWK((await generateKeyPair('RS256', { extractable: true })).publicKey)
  for (const e of ['AQAB', 'Aw', 'AAEAAQ']) t.equal(usableKeys([{ kty: 'RSA', n, e } as JWK]).length, 1, e)
  for (const e of ['AQ', 'AAAB', 'AA', '', 'Ag', 'AQAA'])
    t.equal(usableKeys([{ kty: 'RSA', n, e } as JWK]).length, 0, e)
})

t.test('shared secrets, keys for encryption, foreign curves and algorithms are not used', async (t) => {
  const { jwk } = first
  t.equal(usableKeys([jwk]).length, 1)
  for (const key of [
    { kty: 'oct', k: 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8', kid: 'first' },
    { kty: 'oct', k: 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8', alg: 'HS256' },
    { ...jwk, use: 'enc' },
    { ...jwk, use: null },
    { ...jwk, key_ops: ['encrypt'] },
    { ...jwk, key_ops: [] },
    { ...jwk, key_ops: 'verify' },
    { ...jwk, key_ops: ['sign', 'verify'] },
    { ...jwk, alg: 'ES384' },
    { ...jwk, alg: 'HS256' },
    { ...jwk, alg: 'none' },
    { ...jwk, crv: 'P-384' },
    { ...jwk, crv: 'secp256k1' },
    { ...jwk, kty: 'OKP', crv: 'X25519' },
    { ...jwk, kty: 'XYZ' },
  ])
    t.same(usableKeys([key as JWK]), [], JSON.stringify(key))
})

t.test('a key of Ed25519 is used under both names of its algorithm, and of no other curve', async (t) => {
  const { x } = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' })
  const { x: longer } = generateKeyPairSync('ed448').publicKey.export({ format: 'jwk' })
  for (const alg of ['EdDSA', 'Ed25519']) {
    t.equal(usableKeys([{ kty: 'OKP', crv: 'Ed25519', x, alg } as JWK]).length, 1, alg)
    t.equal(usableKeys([{ kty: 'OKP', crv: 'Ed448', x: longer, alg } as JWK]).length, 0, `${alg} of Ed448`)
  }
  for (const alg of ['Ed448', 'ed25519', 'eddsa'])
    t.equal(usableKeys([{ kty: 'OKP', crv: 'Ed25519', x, alg } as JWK]).length, 0, alg)
})

t.test('a malformed key does not affect the others', async (t) => {
  const [offCurve] = [{ ...first.jwk, y: second.jwk.y, kid: 'off-curve' }]
  const broken: unknown[] = [
    'no key',
    null,
    1,
    [],
    {},
    { kid: 'no kty' },
    { kty: 1 },
    offCurve,
    { ...first.jwk, x: undefined },
    { ...first.jwk, x: 'AA' },
    { ...first.jwk, x: 1 },
    { ...first.jwk, key_ops: 'verify' },
    { ...first.jwk, key_ops: 1 },
    { kty: 'RSA', n: 1, e: 'AQAB' },
    { kty: 'RSA', e: 'AQAB' },
    { kty: 'OKP', crv: 'Ed25519', x: 'AA' },
    { kty: 'OKP', crv: 'Ed25519' },
  ]
  const { keys, judge } = holdKeySet([...broken, second.jwk])
  t.equal(await keys.refresh(), true)
  t.equal(await judge(await second.sign()), 'accepted')
  t.equal(await judge(await first.sign('off-curve')), 'unauthenticated')
})

t.test('only the public half of a published private key is kept', async (t) => {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true })
  const [key] = usableKeys([await exportJWK(privateKey)])
  t.same(Object.keys(key ?? {}).sort(), ['crv', 'kty', 'use', 'x', 'y'])
})
