import { constants, createHash, createHmac, createPrivateKey, type KeyObject, sign } from 'node:crypto'
import type { JWK } from 'jose'
import t, { type Test } from 'tap'
import { call, type JsonValue } from '../support/client.ts'
import { startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { startIssuer } from '../support/issuer.ts'
import { testVectors } from '../support/vectors.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const audience = 'sallyport-demo'
const upstream = await startRawUpstream(t, (socket) => {
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
})
const routes = [{ id: 'any', match: { path: '/*' }, surface: 'platform', upstream: 'platform' }]
const upstreams = { platform: { url: upstream.url } }

/** A gateway with an issuer of its own for each list of keys, since keys of several bear the same id. */
async function startBehind(t: Test, keys: readonly (readonly JWK[])[]) {
  const { issuer: origin } = await startIssuer(t, (path) => keys[Number(path.split('/')[1])] ?? [])
  const issuerOf = (index: number): string => `${origin}/${index}`
  const issuers = keys.map((_, index) => {
    const issuer = issuerOf(index)
    return { issuer, audience, jwksUri: `${issuer}/jwks` }
  })
  const gateway = await startTestGateway(t, { world, routes, upstreams, settings: { issuers } })
  const judge = async (jwt: string): Promise<number> =>
    (await call(gateway.public, { path: '/x', headers: { 'x-oauth-access-token': jwt } })).status
  return { issuerOf, judge }
}

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
const now = Math.floor(Date.now() / 1000)
/** Claims that would do: what is refused with them is refused for its header, its signature or its key. */
const claimsOf = (iss: string) => ({ iss, aud: audience, sub: 'forger', exp: now + 600, iat: now - 1 })

const countArrived = (): number => upstream.received().join('').length

type Vector = Readonly<{ tcId: number; jws: string; result: 'valid' | 'invalid' }>
type Group = Readonly<{ comment: string; keys: readonly JWK[]; secrets: readonly JWK[]; tests: readonly Vector[] }>

const keysIn = (key: JsonValue): readonly JWK[] => key?.keys ?? (key ? [key] : [])

const readGroups = (vectors: JsonValue): readonly Group[] =>
  vectors.testGroups.map(({ comment, tests, ...group }: JsonValue) => {
    const secrets = keysIn(group.private)
    return { comment, tests, secrets, keys: group.public ? keysIn(group.public) : secrets }
  })

const algorithms = ['RS256', 'PS256', 'ES256', 'EdDSA']

/** In base64url. Under it every signature equals its message, so every client can make one. */
const exponentOne = 'AQ'

/** EMSA-PKCS1-v1_5 of SHA-256 (RFC 8017 9.2), which is what a signature is raised to. */
function padMessage(digest: string, { n = '' }: JWK, message: Buffer): Buffer {
  const told = Buffer.from('3031300d060960864801650304020105000420', 'hex')
  const tail = Buffer.concat([Buffer.of(0), told, createHash(digest).update(message).digest()])
  const size = Buffer.from(n, 'base64url').length
  return Buffer.concat([Buffer.of(0, 1), Buffer.alloc(size - 2 - tail.length, 0xff), tail])
}

/** Signs by this algorithm and key; undefined for a key that cannot sign so. */
function signBy(alg: string, jwk: JWK, input: string): string | undefined {
  const bytes = Buffer.from(input)
  const digest = `sha${alg.slice(2)}`
  if (jwk.k !== undefined && alg.startsWith('HS'))
    return createHmac(digest, Buffer.from(jwk.k, 'base64url')).update(bytes).digest('base64url')
  if (jwk.e === exponentOne) return padMessage(digest, jwk, bytes).toString('base64url')
  const padding = alg.startsWith('PS') ? constants.RSA_PKCS1_PSS_PADDING : constants.RSA_PKCS1_PADDING
  try {
    const key: KeyObject = createPrivateKey({ key: { ...jwk }, format: 'jwk' })
    const isEc = alg.startsWith('ES')
    const how = isEc
      ? { key, dsaEncoding: 'ieee-p1363' as const }
      : { key, padding, saltLength: constants.RSA_PSS_SALTLEN_DIGEST }
    return sign(digest, bytes, how).toString('base64url')
  } catch {
    // A point off its curve, or members of another kind of key.
    return undefined
  }
}

const readHeader = (jws: string): JsonValue => {
  try {
    return JSON.parse(Buffer.from(jws.split('.')[0] ?? '', 'base64url').toString('utf8'))
  } catch {
    return undefined
  }
}

/**
 * Every header of a group, with the key that it names. It is good if a vector with it is, by an allowed algorithm. A
 * key that the token brings along does not count: the issuer's key judges it.
 */
function headersOf({ tests, secrets, keys }: Group) {
  const found = new Map<string, { header: JsonValue; secret: JWK; isGood: boolean }>()
  for (const { jws, result } of tests) {
    const header = readHeader(jws)
    const secret = secrets.find(({ kid }) => kid === header?.kid) ?? secrets[0]
    if (typeof header?.alg !== 'string' || /^none$/i.test(header.alg) || secret === undefined) continue
    const [{ alg = header.alg } = {}] = keys
    const isOurs = algorithms.includes(header.alg) && alg === header.alg
    const known = found.get(JSON.stringify(header))
    const isGood = known?.isGood === true || (isOurs && (result === 'valid' || header.jwk !== undefined))
    found.set(JSON.stringify(header), { header, secret, isGood })
  }
  return [...found.values()]
}

/**
 * Headers that are accepted, that are refused, and whose key cannot sign: a point off its curve, one of another curve,
 * or members of another kind of key.
 */
type Counts = Readonly<{ accepted: number; refused: number; unsigned: number }>

/**
 * The vectors' payloads are not valid claims, so none may enter, good or forged. Neither may valid claims under a
 * vector's header and signature. Signed with the vectors' private keys, valid claims must enter exactly if the contract
 * allows key and algorithm.
 */
for (const [file, counts] of [
  ['json_web_signature_test.json', { accepted: 8, refused: 25, unsigned: 0 }],
  ['json_web_key_test.json', { accepted: 1, refused: 21, unsigned: 3 }],
] as const satisfies readonly (readonly [string, Counts])[])
  testVectors(t, `jwt/${file}`, `Wycheproof, ${file}: only good keys and signatures enter`, async (t, vectors) => {
    const groups = readGroups(vectors)
    const { issuerOf, judge } = await startBehind(
      t,
      groups.map(({ keys }) => keys),
    )
    const before = countArrived()
    let sent = 0
    for (const [index, { comment, tests }] of groups.entries())
      await Promise.all(
        tests.map(async ({ tcId, jws }) => {
          const [header, , signature] = jws.split('.')
          const grafted = `${header}.${encode(claimsOf(issuerOf(index)))}.${signature}`
          for (const jwt of [jws, grafted]) {
            const status = await judge(jwt)
            if (status !== 401) t.fail(`${tcId} ${comment}: ${status}`)
          }
          sent += 1
        }),
      )
    t.equal(sent, vectors.numberOfTests, 'every one of them was sent')
    t.equal(countArrived(), before, 'nothing arrived')

    const seen = { accepted: 0, refused: 0, unsigned: 0 }
    for (const [index, group] of groups.entries())
      for (const { header, secret, isGood } of headersOf(group)) {
        const input = `${encode(header)}.${encode(claimsOf(issuerOf(index)))}`
        const signature = signBy(header.alg, secret, input)
        seen[signature === undefined ? 'unsigned' : isGood ? 'accepted' : 'refused'] += 1
        const status = await judge(`${input}.${signature ?? Buffer.alloc(64).toString('base64url')}`)
        t.equal(status, isGood ? 200 : 401, `${group.comment}: ${JSON.stringify(header)}`)
      }
    t.same(seen, counts)
  })

testVectors(t, 'jwt/rfc7520/jws', 'RFC 7520: no example enters, in whatever form', async (t, examples) => {
  const list = Object.entries<JsonValue>(examples)
  const { issuerOf, judge } = await startBehind(
    t,
    list.map(([, { input }]) => [input.key].flat()),
  )
  const before = countArrived()
  let sent = 0
  for (const [name, { output }] of list)
    for (const form of ['compact', 'json', 'json_flat']) {
      if (output[form] === undefined) continue
      sent += 1
      const text = form === 'compact' ? output.compact : JSON.stringify(output[form])
      t.equal(await judge(text), 401, `${name}: ${form}`)
    }
  t.equal(sent, 20)
  t.equal(countArrived(), before, 'nothing arrived')
  // Their keys are good, or not, as the algorithm is allowed or not.
  for (const [index, [name, { input }]] of list.entries())
    for (const [at, key] of [input.key].flat().entries()) {
      const alg = [input.alg].flat()[at]
      const signed = `${encode({ alg, kid: key.kid })}.${encode(claimsOf(issuerOf(index)))}`
      const status = await judge(`${signed}.${signBy(alg, key, signed)}`)
      t.equal(status, algorithms.includes(alg) ? 200 : 401, `${name}: ${alg}`)
    }
})
