import { createHmac, createPublicKey, createSecretKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { createLocalJWKSet, type JWK } from 'jose'
import t from 'tap'
import { GatewayError } from '../../../gateway/base/errors/gateway-error.ts'
import { usableKeys } from '../../../gateway/stages/authenticate/jwks/usable-keys.ts'
import { algorithms, bindKeyToAlgorithm, parseObject } from '../../../gateway/stages/authenticate/signature.ts'
import type { JsonValue } from '../../support/client.ts'
import { proveToken } from '../../support/key-set.ts'
import { testVectors } from '../../support/vectors.ts'

/** Resolves to the payload. */
const open = async (token: string, keys: readonly JWK[]): Promise<string> =>
  (await proveToken(token, createLocalJWKSet({ keys: usableKeys(keys) }))).toString('utf8')

/** `accepted`, `refused`, or the name of what went wrong instead. */
async function judge(token: string, keys: readonly JWK[]): Promise<string> {
  try {
    await open(token, keys)
    return 'accepted'
  } catch (error) {
    return error instanceof GatewayError && error.code === 'unauthenticated' ? 'refused' : String(error)
  }
}

const keysOf = (group: JsonValue): JWK[] => {
  const key = group.public ?? group.private
  return key.keys ?? [key]
}

const headerOf = (token: string): JsonValue => {
  try {
    return JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString('utf8'))
  } catch {
    return {}
  }
}

/** A good signature of an algorithm we allow, by a key made for it; an empty payload holds no claims. */
function mustAccept(token: string, keys: readonly JWK[]): boolean {
  const { alg, kid } = headerOf(token)
  const key = keys.find((one) => one.kid === kid) ?? keys[0]
  return algorithms.includes(alg) && (key?.alg === undefined || key.alg === alg) && token.split('.')[1] !== ''
}

for (const [file, least] of [
  ['jwt/json_web_signature_test.json', { accepted: 10, refused: 350 }],
  ['jwt/json_web_key_test.json', { accepted: 1, refused: 24 }],
] as const) {
  testVectors(
    t,
    file,
    `Wycheproof, ${file}: what is valid and allowed is accepted, all else is refused`,
    async (t, vectors) => {
      const seen = { accepted: 0, refused: 0 }
      for (const group of vectors.testGroups) {
        const keys = keysOf(group)
        for (const { tcId, comment, jws, result } of group.tests) {
          const expected = result === 'valid' && mustAccept(jws, keys) ? 'accepted' : 'refused'
          seen[expected]++
          t.equal(await judge(jws, keys), expected, `${tcId} ${group.comment}: ${comment}`)
        }
      }
      t.equal(seen.accepted + seen.refused, vectors.numberOfTests)
      t.ok(seen.accepted >= least.accepted && seen.refused >= least.refused, 'both kinds are there')
    },
  )
}

testVectors(
  t,
  'jwt/rfc7520/jws',
  'RFC 7520: no example is accepted under a foreign algorithm or form',
  async (t, examples) => {
    let compact = 0
    for (const [name, { input, output }] of Object.entries<JsonValue>(examples)) {
      if (!output.compact) continue
      compact++
      const { alg } = headerOf(output.compact)
      const hasPayload = output.compact.split('.')[1] !== ''
      t.equal(
        await judge(output.compact, [input.key]),
        algorithms.includes(alg) && hasPayload ? 'accepted' : 'refused',
        `${name}: ${alg}`,
      )
    }
    t.ok(compact >= 4, 'examples in compact form are there')
  },
)

testVectors(
  t,
  'jwt/rfc7520/jws/4_1.rsa_v15_signature.json',
  'RFC 7520 4.1: RS256 gives the payload back',
  async (t, example) => {
    t.equal(await open(example.output.compact, [example.input.key]), example.input.payload)
  },
)

/** Every allowed algorithm, with a key for it. */
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const ed = generateKeyPairSync('ed25519')

const toJwk = (key: KeyObject, members: JWK): JWK => ({ ...(key.export({ format: 'jwk' }) as JWK), ...members })

const signers: Readonly<Record<string, Readonly<{ jwk: JWK; sign: (input: Buffer) => Buffer }>>> = {
  RS256: { jwk: toJwk(rsa.publicKey, { kid: 'k' }), sign: (input) => sign('sha256', input, rsa.privateKey) },
  PS256: {
    jwk: toJwk(rsa.publicKey, { kid: 'k' }),
    sign: (input) => sign('sha256', input, { key: rsa.privateKey, padding: 6, saltLength: 32 }), // RSA_PKCS1_PSS_PADDING
  },
  ES256: {
    jwk: toJwk(ec.publicKey, { kid: 'k' }),
    sign: (input) => sign('sha256', input, { key: ec.privateKey, dsaEncoding: 'ieee-p1363' }),
  },
  EdDSA: { jwk: toJwk(ed.publicKey, { kid: 'k' }), sign: (input) => sign(null, input, ed.privateKey) },
  Ed25519: { jwk: toJwk(ed.publicKey, { kid: 'k' }), sign: (input) => sign(null, input, ed.privateKey) },
}

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

function forge(alg: string, header: object = {}, payload: string = encode({ sub: 'a' })) {
  const signer = signers[alg]
  if (!signer) throw new Error(`no signer for ${alg}`)
  const input = `${encode({ alg, kid: 'k', ...header })}.${payload}`
  return { token: `${input}.${signer.sign(Buffer.from(input)).toString('base64url')}`, keys: [signer.jwk] }
}

t.test('PS256: a signature without the zero at its start is refused', async (t) => {
  const signatureOf = (token: string): Buffer => Buffer.from(token.slice(token.lastIndexOf('.') + 1), 'base64url')
  let { token, keys } = forge('PS256')
  // Each has another salt, so one of 256 begins with a zero.
  while (signatureOf(token)[0] !== 0) ({ token, keys } = forge('PS256'))
  t.equal(await judge(token, keys), 'accepted')
  const short = signatureOf(token).subarray(1).toString('base64url')
  t.equal(await judge(`${token.slice(0, token.lastIndexOf('.'))}.${short}`, keys), 'refused')
})

for (const alg of algorithms) {
  t.test(`${alg} is accepted, and not with a bit of its signature or payload changed`, async (t) => {
    const { token, keys } = forge(alg)
    t.equal(await judge(token, keys), 'accepted')
    const [header = '', payload = '', signature = ''] = token.split('.')
    for (const index of [0, 20, 63]) {
      const bytes = Buffer.from(signature, 'base64url')
      bytes[index] = (bytes[index] ?? 0) ^ 1
      t.equal(await judge(`${header}.${payload}.${bytes.toString('base64url')}`, keys), 'refused', `byte ${index}`)
    }
    t.equal(await judge(`${header}.${encode({ sub: 'b' })}.${signature}`, keys), 'refused', 'payload')
    t.equal(await judge(`${encode({ alg, kid: 'k', typ: 'JWT' })}.${payload}.${signature}`, keys), 'refused', 'header')
  })

  t.test(
    `${alg}: a signature of another length, or of a number out of range, is refused, and not an internal error`,
    async (t) => {
      const { token, keys } = forge(alg)
      const input = token.slice(0, token.lastIndexOf('.'))
      const sound = Buffer.from(token.slice(input.length + 1), 'base64url')
      const spoilt = {
        'a byte less at its end': sound.subarray(0, -1),
        'a byte less at its start': sound.subarray(1),
        'a zero more at its end': Buffer.concat([sound, Buffer.alloc(1)]),
        'a zero more at its start': Buffer.concat([Buffer.alloc(1), sound]),
        twice: Buffer.concat([sound, sound]),
        'one byte': Buffer.from([1]),
        'all zeros': Buffer.alloc(sound.length),
        'all ones': Buffer.alloc(sound.length, 0xff),
        'in DER': sign('sha256', Buffer.from(input), ec.privateKey),
        'as long as a token may be': Buffer.alloc(5000, 7),
      }
      for (const [name, signature] of Object.entries(spoilt))
        t.equal(await judge(`${input}.${signature.toString('base64url')}`, keys), 'refused', name)
    },
  )

  t.test(`${alg} is refused under the key of another type`, async (t) => {
    for (const other of algorithms) {
      const key = signers[other]?.jwk
      if (!key || key.kty === signers[alg]?.jwk.kty) continue
      t.equal(await judge(forge(alg).token, [key]), 'refused', other)
    }
  })
}

t.test('an RSA signature has the padding that its header names, whatever node would choose for the key', async (t) => {
  const pkcs1 = (input: Buffer) => sign('sha256', input, rsa.privateKey)
  const pss = signers.PS256?.sign
  const { keys } = forge('RS256')
  for (const [alg, signAs] of [
    ['RS256', pss],
    ['PS256', pkcs1],
  ] as const) {
    const input = `${encode({ alg, kid: 'k' })}.${encode({ sub: 'a' })}`
    const signature = signAs?.(Buffer.from(input)).toString('base64url')
    t.equal(await judge(`${input}.${signature}`, keys), 'refused', alg)
  }
  // For a key of this type node would choose PSS.
  const { publicKey } = generateKeyPairSync('rsa-pss', { modulusLength: 2048 })
  for (const alg of ['RS256', 'PS256'])
    t.throws(() => bindKeyToAlgorithm(alg, publicKey), { code: 'unauthenticated' }, alg)
})

t.test('a key that names its algorithm serves no other', async (t) => {
  const { token, keys } = forge('PS256')
  t.equal(
    await judge(
      token,
      keys.map((key) => ({ ...key, alg: 'RS256' })),
    ),
    'refused',
  )
  t.equal(
    await judge(
      token,
      keys.map((key) => ({ ...key, alg: 'PS256' })),
    ),
    'accepted',
  )
})

t.test('a foreign algorithm is refused by its name, and once more where the signature is checked', async (t) => {
  const secret = createSecretKey(Buffer.alloc(64, 'x'))
  const refused = { code: 'unauthenticated' }
  for (const [alg, key] of [
    ['HS256', secret],
    ['HS512', secret],
    ['RS384', rsa],
    ['RS512', rsa],
  ] as const) {
    const digest = `sha${alg.slice(2)}`
    const input = `${encode({ alg, kid: 'k' })}.${encode({ sub: 'a' })}`
    const signature =
      'privateKey' in key
        ? sign(digest, Buffer.from(input), key.privateKey)
        : createHmac(digest, key).update(input).digest()
    const token = `${input}.${signature.toString('base64url')}`
    // A key set with the fitting key.
    const fitting = 'publicKey' in key ? key.publicKey : key
    await t.rejects(
      proveToken(token, async () => fitting),
      refused,
      `${alg}, by its name`,
    )
    t.throws(() => bindKeyToAlgorithm(alg, fitting), refused, `${alg}, with its key`)
  }
})

t.test('a token without a signature, or signed with a public key as a shared secret, is refused', async (t) => {
  const { jwk } = signers.RS256 ?? {}
  if (!jwk) throw new Error('no RS256')
  const pem = createPublicKey({ key: jwk as JsonValue, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
  for (const alg of [
    'none',
    'None',
    'NONE',
    'nOnE',
    '',
    'HS256',
    'HS384',
    'HS512',
    'RS384',
    'RS512',
    'PS512',
    'ES384',
    'ES512',
    'ES256K',
    'rs256',
  ]) {
    const input = `${encode({ alg, kid: 'k' })}.${encode({ sub: 'a' })}`
    for (const secret of [pem, String(jwk.n), JSON.stringify(jwk)])
      t.equal(
        await judge(`${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`, [jwk]),
        'refused',
        alg,
      )
    t.equal(await judge(`${input}.`, [jwk]), 'refused', `${alg}, no signature`)
  }
})

t.test('alg is refused unless it is a string', async (t) => {
  for (const alg of [null, 1, ['RS256'], { RS256: true }, true, undefined]) {
    const { token, keys } = forge('RS256', { alg })
    t.equal(await judge(token, keys), 'refused', JSON.stringify(alg))
  }
})

// Microsoft Entra External ID and others write the long form (RFC 9068 4).
t.test('typ, when present, must be the media type JWT or at+jwt, in its short or long form', async (t) => {
  const longForms = ['application/at+jwt', 'Application/AT+JWT', 'application/jwt', 'APPLICATION/JWT']
  for (const typ of [undefined, 'JWT', 'jwt', 'at+jwt', 'AT+JWT', ...longForms]) {
    const { token, keys } = forge('ES256', { typ })
    t.equal(await judge(token, keys), 'accepted', String(typ))
  }
  for (const typ of [
    'logout+jwt',
    'JOSE',
    'dpop+jwt',
    'application/json',
    'application/logout+jwt',
    'application/application/jwt',
    'application/',
    'application/ jwt',
    'application/jwt ',
    'application/jwt;v=1',
    'application%2Fjwt',
    'application\\jwt',
    'text/jwt',
    'x/application/jwt',
    '/jwt',
    '',
    'JWT ',
    ' JWT',
    'JWT\n',
    'xJWT',
    null,
    1,
    ['JWT'],
  ]) {
    const { token, keys } = forge('ES256', { typ })
    t.equal(await judge(token, keys), 'refused', JSON.stringify(typ))
  }
})

t.test('crit is refused, whatever it asks for', async (t) => {
  for (const header of [
    { crit: ['exp'], exp: 1 },
    { crit: ['b64'], b64: true },
    { crit: [] },
    { crit: null },
    { crit: 'x' },
    { b64: false },
    { b64: true },
  ]) {
    const { token, keys } = forge('EdDSA', header)
    t.equal(await judge(token, keys), 'refused', JSON.stringify(header))
  }
})

t.test('keys and addresses in the header are never looked at', async (t) => {
  const stranger = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const jwk = toJwk(stranger.publicKey, { kid: 'k' })
  const header = {
    alg: 'ES256',
    kid: 'k',
    jwk,
    jku: 'http://127.0.0.1:1/keys',
    x5u: 'http://127.0.0.1:1/x',
    x5c: ['AA'],
  }
  const input = `${encode(header)}.${encode({ sub: 'a' })}`
  const signature = sign('sha256', Buffer.from(input), { key: stranger.privateKey, dsaEncoding: 'ieee-p1363' })
  const { keys } = forge('ES256')
  t.equal(await judge(`${input}.${signature.toString('base64url')}`, keys), 'refused')
  const honest = forge('ES256', header)
  t.equal(await judge(honest.token, honest.keys), 'accepted', 'they do not spoil a good token either')
})

t.test('only canonical base64url: one token has one spelling', async (t) => {
  const { token, keys } = forge('RS256', {}, Buffer.from('{"sub":"ab"}').toString('base64url'))
  const [header = '', payload = '', signature = ''] = token.split('.')
  const spellings = {
    'a padded header': `${header}=.${payload}.${signature}`,
    'a padded payload': `${header}.${payload}=.${signature}`,
    'a padded signature': `${header}.${payload}.${signature}==`,
    'a space before': ` ${token}`,
    'a space after': `${token} `,
    'a space within': `${header}.${payload.slice(0, 4)} ${payload.slice(4)}.${signature}`,
    'a line break within': `${header}.${payload}.${signature.slice(0, 8)}\n${signature.slice(8)}`,
    'a character of no alphabet': `${header}.${payload}.!${signature}`,
    'a fourth part': `${token}.`,
    'five parts': `${token}.a.b`,
    'two parts': `${header}.${payload}`,
    'no payload': `${header}..${signature}`,
    'no signature': `${header}.${payload}.`,
    'no header': `.${payload}.${signature}`,
    nothing: '',
  }
  t.equal(await judge(token, keys), 'accepted')
  for (const [name, spelling] of Object.entries(spellings)) t.equal(await judge(spelling, keys), 'refused', name)
})

t.test('bits past the last byte of a part must be zero', async (t) => {
  // 256 bytes of RSA signature leave four bits in the last character; their twins decode to the same bytes.
  const { token, keys } = forge('RS256')
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const decodeSignature = (one: string) => Buffer.from(one.split('.')[2] ?? '', 'base64url')
  const last = alphabet.indexOf(token.slice(-1))
  t.equal(last % 16, 0)
  for (let bits = 1; bits < 16; bits++) {
    const twin = token.slice(0, -1) + alphabet.charAt(last + bits)
    t.same(decodeSignature(twin), decodeSignature(token))
    t.equal(await judge(twin, keys), 'refused', `${bits}`)
  }
})

t.test('the other alphabet of base64 is refused', async (t) => {
  // Bytes that need both of the characters in which the alphabets differ.
  const { token, keys } = forge('EdDSA', {}, Buffer.from('{"sub":"\u00fb\u00ff~~~???>>>"}').toString('base64url'))
  t.match(token.split('.')[1], /[-_]/)
  t.equal(await judge(token, keys), 'accepted')
  t.equal(await judge(token.replaceAll('-', '+').replaceAll('_', '/'), keys), 'refused')
})

t.test('the header must be a JSON object in strict UTF-8, without a byte order mark', async (t) => {
  const { keys } = forge('EdDSA')
  const json = '{"alg":"EdDSA","kid":"k"}'
  const headers = {
    'a byte order mark': `\ufeff${json}`,
    'an array': `[${json}]`,
    'a string': JSON.stringify(json),
    null: 'null',
    'a trailing comma': '{"alg":"EdDSA",}',
    'two objects': json + json,
    nothing: ' ',
  }
  const signRaw = (header: Buffer): string => {
    const input = `${header.toString('base64url')}.${encode({ sub: 'a' })}`
    return `${input}.${sign(null, Buffer.from(input), ed.privateKey).toString('base64url')}`
  }
  t.equal(await judge(signRaw(Buffer.from(json)), keys), 'accepted')
  for (const [name, header] of Object.entries(headers))
    t.equal(await judge(signRaw(Buffer.from(header)), keys), 'refused', name)
  const overlong = Buffer.concat([Buffer.from('{"alg":"EdDSA","x":"'), Buffer.from([0xc0, 0xaf]), Buffer.from('"}')])
  t.equal(await judge(signRaw(overlong), keys), 'refused', 'overlong UTF-8')
})

t.test('the payload must be a JSON object in strict UTF-8, without a byte order mark', async (t) => {
  t.same(parseObject(Buffer.from('{"sub":"ü"}')), { sub: 'ü' })
  const none = ['\ufeff{"sub":"a"}', '[]', 'null', '1', '"a"', '', '{', '{"sub":"a"} x', '{"sub":"a",}', "{'sub':'a'}"]
  for (const text of none) t.throws(() => parseObject(Buffer.from(text)), { code: 'unauthenticated' }, text)
  for (const bytes of [[0xc0, 0xaf], [0xff], [0xed, 0xa0, 0x80], [0xe2, 0x82]]) {
    const text = Buffer.concat([Buffer.from('{"sub":"'), Buffer.from(bytes), Buffer.from('"}')])
    t.throws(() => parseObject(text), { code: 'unauthenticated' }, text.toString('hex'))
  }
})

t.test('a token of 24 KiB is read, one over it is refused', async (t) => {
  const sized = (length: number) => {
    // Three payload bytes make four characters; the header's own length fits the rest.
    for (let pad = 0; pad < 4; pad++) {
      const { length: rest } = forge('EdDSA', { pad: 'x'.repeat(pad) }, '').token
      const bytes = ((length - rest) * 3) / 4
      const payload = Buffer.from(`"${'x'.repeat(Math.floor(bytes) - 2)}"`).toString('base64url')
      const made = forge('EdDSA', { pad: 'x'.repeat(pad) }, payload)
      if (made.token.length === length) return made
    }
    throw new Error(`no token of ${length}`)
  }
  const largest = sized(24 * 1024)
  t.equal(await judge(largest.token, largest.keys), 'accepted')
  const larger = sized(24 * 1024 + 1)
  t.equal(await judge(larger.token, larger.keys), 'refused')
})

t.test('a failing issuer is not a fault of the token', async (t) => {
  const { token } = forge('RS256')
  const failure = new GatewayError('issuer_unavailable')
  await t.rejects(
    proveToken(token, () => Promise.reject(failure)),
    { code: 'issuer_unavailable', status: 503 },
  )
})
