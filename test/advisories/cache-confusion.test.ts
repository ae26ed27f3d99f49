import { randomInt } from 'node:crypto'
import { Agent, request as httpRequest } from 'node:http'
import fc from 'fast-check'
import { createLocalJWKSet, decodeJwt, exportJWK, generateKeyPair, SignJWT } from 'jose'
import t from 'tap'
import { GatewayError } from '../../gateway/base/errors/gateway-error.ts'
import { createBoundedMap } from '../../gateway/base/lib/bounded-map.ts'
import { createCachedDirectory } from '../../gateway/directory/cache/cached-directory.ts'
import { createFreshness } from '../../gateway/directory/cache/freshness.ts'
import type { Directory, TokenRecord, UserRecord } from '../../gateway/directory/directory.ts'
import { noLogouts } from '../../gateway/directory/logout.ts'
import { createAuthenticate } from '../../gateway/stages/authenticate/authenticate.ts'
import type { RawCredential } from '../../gateway/stages/authenticate/credential.ts'
import type { ChosenKey } from '../../gateway/stages/authenticate/signature.ts'
import { createVerify, type Issuer } from '../../gateway/stages/authenticate/verify.ts'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import { startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

// Ory Oathkeeper CVE-2021-32701 and GHSA-4mq7-pvjg-xp2r, fast-jwt CVE-2026-35039: what was remembered of one token, or
// under one rule, answered for another.

/** A credential and its owner; `refused` for one without an owner. */
type Case = Readonly<{ credential: RawCredential; owner: string }>

const nameIdentity = (issuer: string, subject: string): string => JSON.stringify([issuer, subject])

/** Names that run together, or that only a boundary tells apart. */
const issuerNames = ['https://a', 'https://a/', 'https://a","1', 'https://b']
const subjects = ['1', '11', '","1', 'https://a', 'token:1', 'a"]']

async function createIssuers(): Promise<Readonly<{ issuers: ReadonlyMap<string, Issuer>; cases: readonly Case[] }>> {
  const issuers = new Map<string, Issuer>()
  const cases: Case[] = []
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  // All of them have one key: nothing but the names tells their tokens apart.
  const keys = {
    findKey: createLocalJWKSet({ keys: [await exportJWK(publicKey)] }),
    version: () => 1,
    noteProven: () => undefined,
  }
  for (const issuer of issuerNames) {
    const trust = {
      issuer,
      audiences: ['us'],
      carriers: new Set(['header'] as const),
      clockToleranceSeconds: 0,
      linkVerifiedEmail: false,
      trustEmailVerified: false,
    }
    const chosen = createBoundedMap<ChosenKey>(7)
    issuers.set(issuer, {
      trust,
      keys: { ...keys, keysByHeader: () => chosen, refresh: async () => true, ageMs: () => 0, lists: async () => true },
    })
    for (const subject of subjects) {
      const token = new SignJWT({ sub: subject, iss: issuer, aud: 'us' }).setExpirationTime('1h')
      const jwt = await token.setProtectedHeader({ alg: 'ES256' }).sign(privateKey)
      cases.push({ credential: { kind: 'oauth', jwt, carrier: 'header' }, owner: nameIdentity(issuer, subject) })
      const [header, payload, signature = ''] = jwt.split('.')
      const other = signature.startsWith('A') ? 'B' : 'A'
      const forged = `${header}.${payload}.${other}${signature.slice(1)}`
      cases.push({ credential: { kind: 'oauth', jwt: forged, carrier: 'header' }, owner: 'refused' })
    }
  }
  return { issuers, cases }
}

const createUser = (id: number, email: string): UserRecord => ({
  ...{ id, email, emailVerified: false, username: null, firstName: null, lastName: null, fullName: null },
  ...{ userType: 'client-managed', currentOrganizationId: null, roles: [] },
})

const { issuers, cases: sessions } = await createIssuers()

/** Ids that begin alike, each with its own secret, and with that of the others. */
const stored = new Map<number, TokenRecord>()
const secrets = [1, 2, 11, 12, 111].map((id) => {
  const { secret, hash } = makeSecret(randomInt)
  const user = createUser(id, `token ${id}`)
  stored.set(id, {
    id,
    hash,
    user,
    ...{ name: null, abilities: [], lastUsedAt: null, expiresAt: null, createdAt: null, ancestors: [] },
  })
  return { id, secret }
})
const tokens: readonly Case[] = [...secrets.map(({ id }) => id), 112].flatMap((id) =>
  secrets.map(({ id: owner, secret }) => ({
    credential: { kind: 'api-token', token: formatToken(id, secret) },
    owner: id === owner ? `token ${id}` : 'refused',
  })),
)
const cases = [...sessions, ...tokens]

/** The guards over a store that answers some time later, with small caches in between. */
function createGuards(delays: readonly number[]) {
  let asked = 0
  const later = async <Value>(value: Value): Promise<Value> => {
    for (let turn = delays[asked++ % delays.length] ?? 0; turn > 0; turn--) await Promise.resolve()
    return value
  }
  const known = new Set<string>()
  const findOrCreate = (issuer: string, subject: string, creates: boolean) => {
    const name = nameIdentity(issuer, subject)
    if (creates) known.add(name)
    return later(known.has(name) ? createUser(1 + [...known].indexOf(name), name) : undefined)
  }
  const store = {
    findByIdentity: ({ issuer, subject }: { issuer: string; subject: string }) => findOrCreate(issuer, subject, false),
    createByIdentity: ({ issuer, subject }: { issuer: string; subject: string }) => findOrCreate(issuer, subject, true),
    findToken: (id: number) => later(stored.get(id)),
    noteTokenUse: () => undefined,
  } as unknown as Directory // nothing else is asked
  const { directory, forget } = createCachedDirectory(store, {
    ...{ maxEntries: 7, ttlMs: 60_000, freshness: createFreshness(() => 0) },
    ...{ onRead: () => undefined, announce: () => undefined, onForgotten: () => undefined },
  })
  const verify = createVerify({ issuers, verified: createBoundedMap(7), onRead: () => undefined })
  return { authenticate: createAuthenticate({ directory, verify, logouts: noLogouts, now: () => new Date() }), forget }
}

const change = fc.constantFrom(
  { kind: 'everything' as const },
  ...[1, 2, 11].flatMap((id) => [
    { kind: 'user' as const, id },
    { kind: 'token' as const, id },
  ]),
)

t.test('for any two principals no cache answers one for the other, however they come together', async (t) => {
  const index = fc.nat(cases.length - 1)
  const wave = fc.oneof(
    { weight: 5, arbitrary: fc.array(index, { minLength: 1, maxLength: 10 }) },
    { weight: 1, arbitrary: change },
  )
  const delays = fc.array(fc.nat(6), { minLength: 1, maxLength: 5 })
  let asked = 0
  await fc.assert(
    fc.asyncProperty(fc.array(wave, { minLength: 1, maxLength: 8 }), delays, async (waves, pauses) => {
      const { authenticate, forget } = createGuards(pauses)
      const judge = async (at: number): Promise<void> => {
        const { credential, owner } = cases[at] ?? {
          credential: { kind: 'oauth', jwt: '', carrier: 'header' },
          owner: 'refused',
        }
        const authenticated = async () => authenticate(credential, { clientAddress: '192.0.2.7', requestId: 'r' })
        const answer = await authenticated().then(
          ({ user }) => user.email,
          (error: unknown) =>
            error instanceof GatewayError && error.code === 'unauthenticated' ? 'refused' : String(error),
        )
        asked += 1
        if (answer !== owner) throw new Error(`${owner} was answered for ${answer}`)
      }
      for (const next of waves) {
        if (Array.isArray(next)) await Promise.all(next.map(judge))
        else forget(next)
      }
    }),
    { numRuns: 150 },
  )
  t.ok(asked > 1_000, `${asked} credentials`)
})

t.test('principals that are interleaved over kept connections each arrive as themselves', async (t) => {
  const world = await startTestWorld(t)
  const { owner, admin, member, outsider } = world.users
  const { robot, robotAdmin } = world.serviceAccounts
  const { acme, globex } = world.organizations
  /** Answers with the identity that arrived, after a moment that differs from one to the next. */
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    const head = soFar.slice(soFar.lastIndexOf('GET '))
    if (!head.endsWith('\r\n\r\n')) return
    const value = (name: string): string => new RegExp(`\r\n${name}: (.*)\r\n`, 'i').exec(head)?.[1] ?? ''
    const body = JSON.stringify([head.split(' ')[1], value('x-gateway-identity'), value('x-organization-id')])
    setTimeout(() => socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`), randomInt(3))
  })
  const gateway = await startTestGateway(t, {
    world,
    routes: [
      { id: 'one', match: { path: '/one/*' }, surface: 'platform', upstream: 'platform' },
      { id: 'two', match: { path: '/two/*' }, surface: 'platform', upstream: 'data' },
    ],
    upstreams: { platform: { url: upstream.url }, data: { url: upstream.url } },
  })
  const principals = [
    { headers: oauth(owner), sub: owner.id, organization: acme.id, kind: 'oauth' },
    {
      headers: { ...oauth(owner), 'x-organization-id': String(globex.id) },
      sub: owner.id,
      organization: globex.id,
      kind: 'oauth',
    },
    { headers: oauth(admin), sub: admin.id, organization: acme.id, kind: 'oauth' },
    { headers: oauth(member), sub: member.id, organization: acme.id, kind: 'oauth' },
    { headers: oauth(outsider), sub: outsider.id, organization: globex.id, kind: 'oauth' },
    { headers: bearer(robot.apiKey), sub: robot.id, organization: acme.id, kind: 'api-token' },
    { headers: bearer(robot.apiSecret), sub: robot.id, organization: acme.id, kind: 'api-token' },
    { headers: bearer(robotAdmin.apiKey), sub: robotAdmin.id, organization: acme.id, kind: 'api-token' },
  ]
  const agent = new Agent({ keepAlive: true, maxSockets: 3 })
  t.teardown(() => agent.destroy())
  const send = (path: string, headers: Record<string, string>) =>
    new Promise<string>((resolve, reject) => {
      const request = httpRequest(`${gateway.public}${path}`, { agent, headers }, async (response) => {
        let text = ''
        for await (const chunk of response) text += String(chunk)
        resolve(text)
      })
      request.on('error', reject).end()
    })
  const credentials = new Map<string, string>()
  await Promise.all(
    Array.from({ length: 400 }, async (_, index) => {
      const at = randomInt(principals.length)
      const { headers, sub, organization, kind } = principals[at] ??
        principals[0] ?? { headers: {}, sub: 0, organization: 0, kind: '' }
      const [path, audience] = index % 2 === 0 ? [`/one/${index}`, 'platform'] : [`/two/${index}`, 'data']
      const [arrivedPath, identity, organizationId] = JSON.parse(await send(path, headers)) as [string, string, string]
      const claims = decodeJwt(identity) as Readonly<Record<string, { id?: number; kind?: string }>> & {
        sub?: string
        aud?: string
      }
      const seen = [
        arrivedPath,
        claims.sub,
        claims.aud,
        claims.organization?.id,
        claims.credential?.kind,
        organizationId,
      ]
      t.same(seen, [path, String(sub), audience, organization, kind, String(organization)])
      credentials.set(`${at}`, `${sub} ${claims.credential?.kind} ${claims.credential?.id ?? organization}`)
    }),
  )
  t.equal(
    new Set(credentials.values()).size,
    principals.length,
    'every principal, and every token of an account, was itself',
  )
  t.ok(upstream.sockets().length < 300, `${upstream.sockets().length} connections: they were shared`)
})
