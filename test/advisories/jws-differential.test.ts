import { constants, createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { compactVerify, createLocalJWKSet, type JWK, jwtVerify } from 'jose'
import t, { type Test } from 'tap'
import { requireInForce } from '../../gateway/stages/authenticate/claims.ts'
import { algorithms } from '../../gateway/stages/authenticate/signature.ts'
import { createVerify } from '../../gateway/stages/authenticate/verify.ts'
import type { JsonValue } from '../support/client.ts'
import { holdKeySet, proveToken } from '../support/key-set.ts'
import { testVectors } from '../support/vectors.ts'

/** The number of generated tokens; the gate makes 100,000. `SEED` makes others. */
const campaign = Number(process.env.CAMPAIGN) || 5_000
let state = Number(process.env.SEED) || 7
const random = (below: number): number => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
  return Math.floor((state / 2 ** 32) * below)
}
const pick = <T>(all: readonly T[]): T => all[random(all.length)] as T // never empty

const pairs = {
  RS256: generateKeyPairSync('rsa', { modulusLength: 2048 }),
  PS256: generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ES256: generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  EdDSA: generateKeyPairSync('ed25519'),
  // RFC 9864: another name of the same algorithm.
  Ed25519: generateKeyPairSync('ed25519'),
} as const
type Algorithm = keyof typeof pairs
const names = Object.keys(pairs) as Algorithm[]
const jwks: JWK[] = names.map((alg) => ({
  ...(pairs[alg].publicKey.export({ format: 'jwk' }) as JWK),
  ...{ kid: alg, use: 'sig' },
  // The key of PS256 may be asked for RS256 as well: only its kind stands in the way.
  ...(alg !== 'PS256' && { alg }),
}))

function signBy(alg: string, key: KeyObject, input: string): Buffer {
  const bytes = Buffer.from(input, 'latin1')
  if (alg === 'EdDSA' || alg === 'Ed25519') return sign(null, bytes, key)
  if (alg === 'ES256') return sign('sha256', bytes, { key, dsaEncoding: 'ieee-p1363' })
  const padding = alg === 'PS256' ? constants.RSA_PKCS1_PSS_PADDING : constants.RSA_PKCS1_PADDING
  return sign('sha256', bytes, alg === 'PS256' ? { key, padding, saltLength: 32 } : { key, padding })
}

const issuer = 'https://issuer.example'
const now = Math.floor(Date.now() / 1_000)
const claims = { iss: issuer, aud: 'us', sub: 's', exp: now + 3_600 }
type Members = Readonly<Record<string, unknown>>

const values: readonly unknown[] = [
  null,
  '',
  0,
  1,
  true,
  [],
  {},
  ['RS256'],
  'JWT',
  'at+jwt',
  'jwt',
  'RS256',
  'kid',
  '\0',
]
const headerNames = [
  'alg',
  'kid',
  'typ',
  'crit',
  'b64',
  'jwk',
  'jku',
  'x5u',
  'x5c',
  'cty',
  'zip',
  'enc',
  'epk',
  '__proto__',
]
const algorithmNames = [
  ...names,
  'none',
  'None',
  'HS256',
  'RS384',
  'PS512',
  'ES384',
  'ES256K',
  'Ed448',
  'ed25519',
  'rs256',
  'EdDSA ',
]

/** A header with another member or value; most are still signed by the right key. */
function changeHeader(header: Members): Members {
  switch (random(5)) {
    case 0:
      return { ...header, alg: pick(algorithmNames) }
    case 1:
      return { ...header, kid: pick([...names, undefined, '', 'other', 7]) }
    case 2:
      return {
        ...header,
        typ: pick([
          'JWT',
          'at+jwt',
          'AT+JWT',
          'logout+jwt',
          'dpop+jwt',
          'application/at+jwt',
          'application/JWT',
          undefined,
        ]),
      }
    case 3:
      return { ...header, jwk: jwks[random(jwks.length)] }
    default:
      return { ...header, [pick(headerNames)]: pick(values) }
  }
}

/** How JSON may be written that some read otherwise: twice the same name, a mark before it, blanks, other bytes. */
function writeJson(value: Members): Buffer {
  const text = JSON.stringify(value)
  switch (random(12)) {
    case 0:
      return Buffer.from(`{"alg":"none",${text.slice(1)}`)
    case 1:
      return Buffer.from(`${text.slice(0, -1)},"alg":"${pick(algorithmNames)}"}`)
    case 2:
      return Buffer.from(`\ufeff${text}`)
    case 3:
      return Buffer.from(` ${text}\n`)
    case 4:
      return Buffer.concat([Buffer.from(text.slice(0, -1)), Buffer.from(',"x":"\xff"}', 'latin1')])
    case 5:
      return Buffer.from(pick([`[${text}]`, `${text}x`, 'null', '""', '', text.replaceAll('"', "'")]))
    default:
      return Buffer.from(text)
  }
}

/** Variants of base64url that some libraries accept. */
function encode(bytes: Buffer): string {
  const text = bytes.toString('base64url')
  switch (random(24)) {
    case 0:
      return bytes.toString('base64')
    case 1:
      return `${text}=`
    case 2:
      return `${text.slice(0, 3)}${pick([' ', '\n', '\t', '.', '!', '\0', '+', '/'])}${text.slice(3)}`
    case 3:
      // The last character's spare bits, if it has any.
      return text.slice(0, -1) + String.fromCharCode(text.charCodeAt(text.length - 1) + 1)
    default:
      return text
  }
}

function changeSignature(signature: Buffer): Buffer {
  const changed = Buffer.from(signature)
  switch (random(14)) {
    case 0:
      changed[random(changed.length)] = random(256)
      return changed
    case 1:
      return changed.subarray(0, random(changed.length))
    case 2:
      return Buffer.concat([changed, Buffer.of(random(256))])
    case 3:
      return Buffer.alloc(changed.length, pick([0, 1, 255]))
    case 4:
      return Buffer.concat([Buffer.of(0), changed])
    case 5:
      return Buffer.concat([changed.subarray(changed.length / 2), changed.subarray(0, changed.length / 2)])
    default:
      return changed
  }
}

function makeToken(): string {
  const alg = pick(names)
  let header: Members = { alg, kid: alg, typ: 'JWT' }
  for (let count = random(3); count > 0; count--) header = changeHeader(header)
  const payload =
    random(6) === 0 ? { ...claims, [pick(['iss', 'aud', 'sub', 'exp', 'nbf', 'cnf'])]: pick(values) } : claims
  const input = `${encode(writeJson(header))}.${encode(writeJson(payload))}`
  const signer = random(8) === 0 ? pick(names) : alg
  const asked = names.find((name) => name === header.alg) ?? alg
  // By the key of the name, in the way of the header where the key can do that.
  const way = pairs[signer].privateKey.asymmetricKeyType === pairs[asked].privateKey.asymmetricKeyType ? asked : signer
  const signature =
    header.alg === 'HS256' && random(2) === 0
      ? createHmac('sha256', pairs.RS256.publicKey.export({ format: 'pem', type: 'spki' }))
          .update(input)
          .digest()
      : signBy(way, pairs[signer].privateKey, input)
  const token = `${input}.${encode(changeSignature(signature))}`
  return random(60) === 0 ? `${token}${pick(['.', '.e30', ' ', '\n'])}` : token
}

/** Members of a key that say what it is for, or are it. */
const keyChanges: Readonly<Record<string, () => unknown>> = {
  alg: () => pick([...algorithmNames, undefined, '', null]),
  kid: () => pick([...names, undefined, '', 'other', 7]),
  use: () => pick(['enc', undefined, '', 'SIG', null]),
  key_ops: () => pick([['verify'], ['sign'], [], ['sign', 'verify'], 'verify', null]),
  kty: () => pick(['RSA', 'EC', 'OKP', 'oct', '', undefined]),
  crv: () => pick(['P-256', 'P-384', 'secp256k1', 'Ed25519', 'X25519', undefined]),
  n: () => pick([jwks[0]?.n, jwks[1]?.n?.slice(0, 170), '', undefined]),
  e: () => pick(['AQAB', 'AQ', 'Aw', 'AAEAAQ', 'Ag', undefined]),
  x: () => pick([jwks[2]?.x, jwks[3]?.x, `${jwks[3]?.x?.slice(0, -1)}A`, undefined]),
}

/** A key set of the issuer: its keys with changes, twice, in another order, without some, or beside odd entries. */
function changeKeys(): readonly unknown[] {
  const kept = jwks.flatMap((key): unknown[] => {
    if (random(8) === 0) return []
    const changed: Record<string, unknown> = { ...key }
    for (let count = random(3); count > 0; count--) {
      const name = pick(Object.keys(keyChanges))
      changed[name] = keyChanges[name]?.()
    }
    return random(6) === 0 ? [changed, key] : [changed]
  })
  const odd = [{ kty: 'oct', kid: 'RS256', k: 'c2VjcmV0', alg: 'HS256' }, null, 7, 'key', {}, { kty: 'RSA' }]
  const all = random(3) === 0 ? [...kept, pick(odd)] : kept
  return random(2) === 0 ? all : [...all].reverse()
}

const isAccepted = async (work: () => unknown): Promise<boolean> => {
  try {
    await work()
    return true
  } catch {
    return false
  }
}

const trust = {
  ...{ issuer, audiences: ['us'], carriers: new Set(['header'] as const), clockToleranceSeconds: 0 },
  ...{ linkVerifiedEmail: false, trustEmailVerified: false },
}

/** Our guard, with the keys that an issuer publishes. */
async function openGuard(t: Test, published: readonly unknown[]): Promise<(token: string) => Promise<boolean>> {
  const held = holdKeySet(published)
  t.teardown(held.stop)
  await held.keys.refresh()
  const verify = createVerify({
    issuers: new Map([[issuer, { trust, keys: held.keys }]]),
    // Each token is verified; the keys of headers are remembered, as they are in force.
    verified: { get: () => undefined, set: () => undefined },
    onRead: () => undefined,
  })
  const enter = async (token: string): Promise<void> => {
    const { claims } = await verify(token)
    requireInForce(claims, trust, Date.now() / 1_000)
  }
  return (token) => isAccepted(() => enter(token))
}

/** Whether jose accepts a token by any one of these keys: a bad key beside a good one takes nothing from it. */
async function isAcceptedByJose(token: string, published: readonly unknown[]): Promise<boolean> {
  const options = { issuer, audience: 'us', algorithms }
  for (const key of published)
    if (await isAccepted(() => jwtVerify(token, createLocalJWKSet({ keys: [key as JWK] }), options))) return true
  return false
}

/** Tries so many tokens; gives how many were accepted. */
async function compare(t: Test, published: readonly unknown[], tokens: number): Promise<number> {
  const enters = await openGuard(t, published)
  let accepted = 0
  for (let count = 0; count < tokens; count++) {
    const token = makeToken()
    if (!(await enters(token))) continue
    accepted += 1
    if (!(await isAcceptedByJose(token, published))) t.fail(`jose refuses ${token} by ${JSON.stringify(published)}`)
  }
  return accepted
}

t.test(`the gateway accepts none of ${campaign} generated tokens that jose refuses`, async (t) => {
  const accepted = await compare(t, jwks, campaign)
  t.ok(accepted > campaign / 50, `${accepted} were accepted`)
  t.ok(campaign - accepted > campaign / 4, `${campaign - accepted} were refused`)
})

const tokensOfSet = 25

t.test(`the gateway accepts none of ${campaign} tokens that jose refuses, with changed key sets too`, async (t) => {
  let accepted = 0
  let useless = 0
  for (let count = 0; count < campaign; count += tokensOfSet) {
    const found = await compare(t, changeKeys(), tokensOfSet)
    accepted += found
    if (found === 0) useless += 1
  }
  t.ok(accepted > campaign / 100, `${accepted} were accepted`)
  t.ok(useless < (campaign / tokensOfSet) * 0.75, `${useless} sets verify nothing`)
})

const keysIn = (key: JsonValue): readonly JWK[] => key?.keys ?? (key ? [key] : [])

testVectors(t, 'jwt/json_web_signature_test.json', 'no vector is accepted that jose refuses', async (t, vectors) => {
  let compared = 0
  for (const group of vectors.testGroups) {
    const keys = keysIn(group.public ?? group.private).filter(({ k }) => k === undefined)
    if (keys.length === 0) continue
    const findKey = createLocalJWKSet({ keys: [...keys] })
    for (const { tcId, jws } of group.tests) {
      if (typeof jws !== 'string') continue
      compared += 1
      if (!(await isAccepted(() => proveToken(jws, findKey)))) continue
      t.ok(await isAccepted(() => compactVerify(jws, findKey, { algorithms })), `${tcId}`)
    }
  }
  t.ok(compared > 100, `${compared} compared`)
})

testVectors(t, 'jwt/rfc7520/jws', 'nor one of RFC 7520', async (t, vectors) => {
  const samples: readonly JsonValue[] = Object.values(vectors)
  for (const sample of samples) {
    const jws: unknown = sample?.output?.compact
    const key = sample?.input?.key
    if (typeof jws !== 'string' || !key || key.k !== undefined) continue
    const { d: _, p: __, q: ___, dp: ____, dq: _____, qi: ______, use: _______, ...open } = key
    const findKey = createLocalJWKSet({ keys: [open] })
    if (await isAccepted(() => proveToken(jws, findKey)))
      t.ok(await isAccepted(() => compactVerify(jws, findKey, { algorithms })), sample.title)
  }
})
