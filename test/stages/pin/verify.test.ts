import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, exportSPKI, generateKeyPair, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import {
  createVerifier,
  type Identity,
  IdentityError,
  may,
  type RequestLike,
  verifiedEmail,
} from '../../../gateway/stages/pin/verify.ts'
import { call } from '../../support/client.ts'
import { startTestGateway } from '../../support/gateway.ts'
import { oauth, startTestWorld } from '../../support/world.ts'

const own = await generateKeyPair('EdDSA', { extractable: true })
const other = await generateKeyPair('EdDSA', { extractable: true })
const jwks = { keys: [{ ...(await exportJWK(own.publicKey)), kid: 'one', alg: 'EdDSA', use: 'sig' }] }

/** A server of a few lines; its address. */
async function serve(t: Test, handle: Parameters<typeof createServer>[1]): Promise<string> {
  const server = createServer(handle)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return `http://127.0.0.1:${port}`
}

const claims = {
  user: { id: 3, type: 'human', email: 'a@b', emailVerified: true },
  organization: { id: 1, slug: 'acme', role: 'org-member' },
  roles: ['org-member'],
  abilities: ['datasets:read'],
  credential: { kind: 'oauth' },
}

type Changes = Readonly<{ claims?: object; header?: object; key?: Parameters<SignJWT['sign']>[0]; exp?: number }>

/** A header as the gateway would sign it, but for the changes. */
async function sign({ claims: more = {}, header = {}, key = own.privateKey, exp = 60 }: Changes = {}): Promise<string> {
  const now = Math.floor(Date.now() / 1_000)
  return new SignJWT({ iss: 'sallyport', aud: 'platform', sub: '3', ...claims, ...more })
    .setProtectedHeader({ alg: 'EdDSA', kid: 'one', typ: 'JWT', ...header })
    .setIssuedAt(now)
    .setExpirationTime(now + exp)
    .sign(key)
}

const requestOf = (identity: string | string[] | undefined, more: Partial<RequestLike> = {}): RequestLike => ({
  method: 'GET',
  url: '/x?y',
  headers: { 'x-gateway-identity': identity },
  ...more,
})

async function codeOf(result: Promise<unknown>): Promise<string> {
  try {
    await result
    return 'verified'
  } catch (error) {
    if (!(error instanceof IdentityError)) throw error
    return `${error.code} ${error.status}`
  }
}

const publish = (t: Test): Promise<string> => serve(t, (_, response) => response.end(JSON.stringify(jwks)))

t.test('a header of the gateway says who is calling', async (t) => {
  const verify = createVerifier({ jwksUrl: await publish(t), audience: 'platform' })
  const identity = await verify(requestOf(await sign()))
  t.same(identity, { sub: '3', ...claims })
  t.ok(may(identity, 'datasets:read'))
  t.notOk(may(identity, 'datasets:write'))
  t.ok(may({ abilities: ['*'] }, 'datasets:write'))
  const fetched = new Request('http://h/x?y', { headers: { 'x-gateway-identity': await sign() } })
  t.same(await verify(fetched), { sub: '3', ...claims }, 'from a Fetch API request as well')
})

t.test('a header that the gateway did not sign for this backend, now, is refused', async (t) => {
  const verify = createVerifier({ jwksUrl: await publish(t), audience: 'platform' })
  const secret = new TextEncoder().encode(await exportSPKI(own.publicKey))
  const unsigned = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${(await sign()).split('.')[1]}.`
  const good = await sign()
  const headers: Readonly<Record<string, string | string[]>> = {
    'of another key': await sign({ key: other.privateKey }),
    'of an unknown key': await sign({ key: other.privateKey, header: { kid: 'two' } }),
    'signed with the public key as a secret': await sign({ key: secret, header: { alg: 'HS256' } }),
    unsigned,
    'for another backend': await sign({ claims: { aud: 'files' } }),
    'of another gateway': await sign({ claims: { iss: 'other' } }),
    expired: await sign({ exp: -60 }),
    'without a subject': await sign({ claims: { sub: undefined } }),
    'that is no JWS': 'x',
    'that came twice, joined': `${good}, ${good}`,
    'that came twice': [good, good],
  }
  for (const [what, header] of Object.entries(headers))
    t.equal(await codeOf(verify(requestOf(header))), 'invalid 401', `a header ${what}`)
  t.equal(await codeOf(verify(requestOf(undefined))), 'missing 401')
  t.equal(await codeOf(verify(requestOf(''))), 'missing 401')
})

t.test('keys that cannot be fetched are not a fault of the caller', async (t) => {
  const places = {
    'no server listens': 'http://127.0.0.1:1/',
    'an error': await serve(t, (_, response) => response.writeHead(500).end()),
    'no key set': await serve(t, (_, response) => response.end('no')),
  }
  for (const [what, jwksUrl] of Object.entries(places)) {
    const verify = createVerifier({ jwksUrl, audience: 'platform' })
    t.equal(await codeOf(verify(requestOf(await sign()))), 'unavailable 503', what)
  }
})

t.test('a header that is bound to a request serves no other', async (t) => {
  const jwksUrl = await publish(t)
  const verify = createVerifier({ jwksUrl, audience: 'platform' })
  const bound = await sign({ claims: { htm: 'GET', htu: '/x?y' } })
  t.equal(await codeOf(verify(requestOf(bound))), 'verified')
  t.equal(await codeOf(verify(requestOf(bound, { url: '/mounted', originalUrl: '/x?y' }))), 'verified')
  t.equal(await codeOf(verify(requestOf(bound, { url: 'http://h/x?y' }))), 'verified')
  t.equal(await codeOf(verify(requestOf(bound, { method: 'POST' }))), 'invalid 401')
  t.equal(await codeOf(verify(requestOf(bound, { url: '/x' }))), 'invalid 401')
  t.equal(await codeOf(verify({ headers: { 'x-gateway-identity': bound } })), 'invalid 401')
  const strict = createVerifier({ jwksUrl, audience: 'platform', requiresBinding: true })
  t.equal(await codeOf(strict(requestOf(await sign()))), 'invalid 401')
  t.equal(await codeOf(strict(requestOf(bound))), 'verified')
})

t.test('a backend that imports the package verifies what a gateway sends it', async (t) => {
  const world = await startTestWorld(t)
  // By a name that the type check does not follow: it comes before the build.
  const entryPoint: string = 'sallyport/verify'
  const { createVerifier } = (await import(entryPoint)) as typeof import('../../../gateway/stages/pin/verify.ts')
  let jwksUrl = ''
  const backend = await serve(t, (request, response) => {
    createVerifier({ jwksUrl, audience: 'platform', requiresBinding: true })(request).then(
      ({ user, organization }) => response.end(JSON.stringify([user.id, organization?.slug])),
      ({ status }: IdentityError) => response.writeHead(status).end(),
    )
  })
  const upstreams = { platform: { url: backend, bind: true } }
  const gateway = await startTestGateway(t, { world, upstreams })
  jwksUrl = `${gateway.admin}/.well-known/jwks.json`
  const { member } = world.users
  const answer = await call(gateway.public, { path: '/public/x?a=%20b', headers: oauth(member) })
  t.same(answer.json(), [member.id, 'acme'])
  t.equal((await call(backend, { path: '/public/x' })).status, 401, 'and nothing that came past it')
})

t.test('an address counts only where it is verified, and not where an older gateway says nothing', (t) => {
  const user = { id: 3, type: 'human', email: 'a@b' } as const
  t.equal(verifiedEmail({ user: { ...user, emailVerified: true } }), 'a@b')
  t.equal(verifiedEmail({ user: { ...user, emailVerified: false } }), undefined)
  t.equal(verifiedEmail({ user: user as Identity['user'] }), undefined)
  t.end()
})
