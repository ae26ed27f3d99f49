import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import type { Drill, Finding } from '../drill.ts'
import { type DrillFixture, readKeysUrl } from '../fixture.ts'

const refreshMs = 1_000

/** One refresh, and the time of its answer. */
const boundMs = refreshMs + 1_000

type Signer = Readonly<{ jwk: JWK; jwt: string }>

/** The sets as they were and as they ought to be, and tokens of the keys that differ. */
type Rotation = Readonly<{ withdrawn: Signer; next: Signer; show: (set: 'old' | 'new') => void; fetches: () => number }>

const rotationOf = ({ notes }: DrillFixture): Rotation => notes.get('rotation') as Rotation

async function createSigner({ world }: DrillFixture, kid: string): Promise<Signer> {
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  const { sub, email } = world.users.owner
  const { issuer, audience } = world.oidc
  const jwt = await new SignJWT({ sub, email, iss: issuer, aud: audience })
    .setProtectedHeader({ alg: 'ES256', kid })
    .setIssuedAt()
    .setExpirationTime('2h')
    .sign(privateKey)
  return { jwk: { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' }, jwt }
}

async function startKeyServer(fixture: DrillFixture): Promise<Readonly<{ url: string; rotation: Rotation }>> {
  const answer = await fetch(await readKeysUrl(fixture.world.oidc.issuer))
  const { keys } = (await answer.json()) as { keys: readonly JWK[] }
  const [withdrawn, next] = [await createSigner(fixture, 'withdrawn'), await createSigner(fixture, 'next')]
  const sets = { old: [...keys, withdrawn.jwk], new: [...keys, next.jwk] }
  let shown: keyof typeof sets = 'old'
  let fetches = 0
  const server = createServer((_request, response) => {
    fetches += 1
    // As a cache in between does it (RFC 9111, 5.1).
    if (shown === 'old')
      response.setHeader('date', new Date(Date.now() - 86_400_000).toUTCString()).setHeader('age', 86_400)
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ keys: sets[shown] }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  fixture.owner.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  const show = (set: keyof typeof sets): void => {
    shown = set
  }
  return { url: `http://127.0.0.1:${port}`, rotation: { withdrawn, next, show, fetches: () => fetches } }
}

async function ask({ gateway }: DrillFixture, { jwt }: Signer): Promise<number> {
  const answer = await fetch(`${gateway().public}/datasets`, { headers: { 'x-oauth-access-token': jwt } })
  await answer.arrayBuffer()
  return answer.status
}

async function findSettled(fixture: DrillFixture, signer: Signer, status: number, check: string): Promise<Finding> {
  const startedMs = performance.now()
  let tookMs = 0
  for (let seen = 0; seen !== status && tookMs < 10 * boundMs; tookMs = performance.now() - startedMs)
    seen = await ask(fixture, signer)
  return { check, seen: `${tookMs.toFixed(0)} ms`, limit: `<= ${boundMs} ms`, isMet: tookMs <= boundMs }
}

export const drill: Drill = {
  about: 'the issuer has rotated its keys, and a cache before it goes on to show the old set',
  cells: [['issuer', 'stale']],
  prepare: async (fixture) => {
    const { url, rotation } = await startKeyServer(fixture)
    fixture.notes.set('rotation', rotation)
    const { issuer, audience } = fixture.world.oidc
    return { settings: { issuers: [{ issuer, audience, jwksUri: url }], jwks: { refreshMs } } }
  },
  begin: (fixture) => fixture.notes.set('fetches', [rotationOf(fixture).fetches(), performance.now()]),
  end: async (fixture) => {
    const { show, withdrawn, next } = rotationOf(fixture)
    show('new')
    fixture.notes.set('settled', [
      await findSettled(fixture, withdrawn, 401, 'a withdrawn key is refused after'),
      await findSettled(fixture, next, 200, 'the next key is taken after'),
    ])
  },
  lookDuring: async (fixture) => {
    const { withdrawn, next, fetches } = rotationOf(fixture)
    for (let count = 0; count < 100; count++) await ask(fixture, next)
    const [before, sinceMs] = fixture.notes.get('fetches') as [number, number]
    const most = Math.ceil((performance.now() - sinceMs) / refreshMs) + 2
    const seen = fetches() - before
    const statuses = { withdrawn: await ask(fixture, withdrawn), next: await ask(fixture, next) }
    return [
      {
        check: 'fetches of keys, unknown ones asked for',
        seen: `${seen}`,
        limit: `1 to ${most}`,
        isMet: seen > 0 && seen <= most,
      },
      {
        check: 'a key of the set that is shown',
        seen: `${statuses.withdrawn}`,
        limit: '200',
        isMet: statuses.withdrawn === 200,
      },
      { check: 'a key that is not in it', seen: `${statuses.next}`, limit: '401', isMet: statuses.next === 401 },
    ]
  },
  lookAfter: async ({ notes }) => notes.get('settled') as readonly Finding[],
}
