import { randomInt } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import pg from 'pg'
import t, { type Test } from 'tap'
import { identityOf } from '../../demo/seed.ts'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import { call } from '../support/client.ts'
import { openRawClient, startTestGateway, until } from '../support/gateway.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

// A scope may hold abilities that its minter's credential lacks: a token that may only mint once minted one that writes.

const world = await startTestWorld(t)
const { acme } = world.organizations
const { robot } = world.serviceAccounts
const database = new pg.Pool({ connectionString: world.databaseUrl, max: 4 })
t.teardown(() => database.end())
await database.query("update role_assignments set role = 'org-owner' where user_id = $1", [robot.id])

const scopes = {
  minting: ['tokens:manage'],
  reading: ['tokens:manage', 'datasets:read', 'workflows:read'],
  writing: ['tokens:manage', 'datasets:read', 'datasets:write'],
  running: ['workflows:execute', 'tokens:manage'],
  'api-key': ['datasets:read', 'workflows:read', 'workflows:execute'],
  'api-secret': ['datasets:read', 'datasets:write', 'workflows:read', 'workflows:execute', 'tokens:manage'],
} as const
type Scope = keyof typeof scopes
const scopeNames = Object.keys(scopes) as Scope[]

const shipped = fileURLToPath(new URL('../../policies', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
mkdirSync(join(folder, 'policies'))
const roles = readFileSync(join(shipped, 'roles.yaml'), 'utf8')
const writeRoles = (tokenScopes: object): void =>
  replaceFile(
    'roles.yaml',
    `${roles.slice(0, roles.indexOf('tokenScopes:'))}tokenScopes: ${JSON.stringify(tokenScopes)}\n`,
  )

function replaceFile(name: string, text: string): void {
  writeFileSync(join(folder, name), text)
  renameSync(join(folder, name), join(folder, 'policies', name))
}

writeRoles(scopes)
const path = '/organizations/:id/users/:userId/tokens'
const route = {
  surface: 'platform',
  organization: { param: 'id' },
  require: { role: 'org-admin', ability: 'tokens:manage' },
}
const mintRoute = { id: 'mint', match: { methods: ['POST'], path }, answer: 'tokens.mint', ...route }
const writeRoutes = (...routes: readonly object[]): void => replaceFile('routes.yaml', JSON.stringify({ routes }))
writeRoutes(mintRoute)
const gateway = await startTestGateway(t, {
  world,
  settings: {
    policies: { directory: join(folder, 'policies') },
    issuers: [{ issuer: world.oidc.issuer, audience: 'sallyport-demo', scopes: { full: ['*'], ...scopes } }],
  },
})

type Token = Readonly<{ id: number; token: string; abilities: readonly string[] }>

async function mint(
  headers: Record<string, string>,
  scope: Scope,
): Promise<Readonly<{ status: number; token: Token }>> {
  const answer = await call(gateway.public, {
    method: 'POST',
    path: path.replace(':id', String(acme.id)).replace(':userId', String(robot.id)),
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ scope }),
  })
  return { status: answer.status, token: answer.json().data }
}

/** A token as another program writes it, with any abilities. */
async function writeToken(abilities: readonly string[]): Promise<Token> {
  const { secret, hash } = makeSecret(randomInt)
  const { rows } = await database.query<{ id: number }>(
    "insert into auth_access_tokens (tokenable_id, type, hash, abilities) values ($1, 'auth_token', $2, $3) returning id",
    [robot.id, hash, JSON.stringify(abilities)],
  )
  const id = rows[0]?.id ?? 0
  return { id, token: formatToken(id, secret), abilities }
}

const isWithin = (inner: readonly string[], outer: readonly string[]): boolean =>
  outer.includes('*') || inner.every((ability) => outer.includes(ability))

t.test('a token that may only mint mints no more than that', async (t) => {
  const { token } = await writeToken(['tokens:manage'])
  for (const scope of scopeNames)
    t.equal((await mint(bearer(token), scope)).status, scope === 'minting' ? 201 : 403, scope)
})

type Step = Readonly<{ holder: number; scope: Scope }>

const steps = fc.array(fc.record({ holder: fc.nat(), scope: fc.constantFrom(...scopeNames) }), { maxLength: 12 })
const everything = [...new Set([...Object.values(scopes).flat(), '*', 'files:write'])]

/** Each step names the root or a token of the chain, which mints. Eight tokens fit into one line. */
async function holdsNoMore(abilities: readonly string[], credential: Record<string, string>, chain: readonly Step[]) {
  const root = { headers: credential, abilities }
  const held: Readonly<{ headers: Record<string, string>; abilities: readonly string[]; id?: number }>[] = [root]
  for (const { holder, scope } of chain) {
    const by = held[holder % held.length] ?? root
    const { status, token } = await mint(by.headers, scope)
    const mayMint = isWithin([...scopes[scope], 'tokens:manage'], by.abilities)
    if ((status === 201) !== mayMint && held.length <= 8) throw new Error(`${status} for ${scope} by ${by.abilities}`)
    if (status === 201) held.push({ ...token, headers: bearer(token.token) })
  }
  const { rows } = await database.query<{ abilities: string }>(
    'select abilities from auth_access_tokens where id = any($1)',
    [held.flatMap(({ id }) => id ?? [])],
  )
  return rows.length === held.length - 1 && rows.every((row) => isWithin(JSON.parse(row.abilities), abilities))
}

t.test('no chain of mints holds an ability that its first token lacked', async (t) => {
  const property = fc.asyncProperty(fc.subarray(everything), steps, async (abilities, chain) => {
    const { token } = await writeToken(abilities)
    return holdsNoMore(abilities, bearer(token), chain)
  })
  await fc.assert(property, { numRuns: 40 })
  t.pass()
})

t.test('no chain of mints holds an ability that its first JWT lacked', async (t) => {
  const names = fc.subarray([...scopeNames, 'full', 'unknown'])
  const property = fc.asyncProperty(names, steps, async (granted, chain) => {
    const abilities = granted.flatMap((name) => (name === 'full' ? ['*'] : (scopes[name as Scope] ?? [])))
    const jwt = await world.mint({ ...identityOf('owner'), claims: { scope: granted.join(' ') } })
    return holdsNoMore(abilities, oauth({ jwt }), chain)
  })
  await fc.assert(property, { numRuns: 40 })
  t.pass()
})

t.test('a token that another program narrows lends nothing that it lost, whatever a cache still holds', async (t) => {
  for (let round = 0; round < 5; round++) {
    const root = await writeToken(scopes['api-secret'])
    t.equal((await mint(bearer(root.token), 'writing')).status, 201)
    await database.query('update auth_access_tokens set abilities = $2 where id = $1', [
      root.id,
      JSON.stringify(scopes.minting),
    ])
    t.equal((await mint(bearer(root.token), 'writing')).status, 403)
  }
})

const countReloads = async (): Promise<number> => {
  const text = await (await fetch(`${gateway.admin}/metrics`)).text()
  return Number(/^sallyport_policy_reloads_total\{outcome="ok"\} (\d+)/m.exec(text)?.[1] ?? 0)
}

/** Changes one file, and waits until the gateway obeys it. */
async function reload(change: () => void): Promise<void> {
  const before = await countReloads()
  change()
  await until(async () => (await countReloads()) > before, 'the reload')
}

/** Begins a mint, reloads the policy while its body waits, and gives the status and the text of its answer. */
async function mintOver(t: Test, change: () => void) {
  const { token } = await writeToken(scopes.reading)
  const body = JSON.stringify({ scope: 'reading' })
  const client = await openRawClient(t, gateway.public)
  const place = path.replace(':id', String(acme.id)).replace(':userId', String(robot.id))
  const lines = ['Host: h', `Authorization: Bearer ${token}`, 'Expect: 100-continue', `Content-Length: ${body.length}`]
  client.send(`POST ${place} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
  await client.until(/100 Continue\r\n\r\n/)
  await reload(change)
  client.send(body)
  const text = await client.until(/"(?:requestId|createdAt)".*\}/)
  client.socket.destroy()
  const [, status] = /HTTP\/1\.1 ([2-5]\d\d) /.exec(text) ?? []
  return { status: Number(status), text }
}

t.test('a mint whose body waits while the policy is reloaded is one of the new policy', async (t) => {
  const narrowed = await mintOver(t, () => writeRoles({ ...scopes, reading: ['workflows:read'] }))
  t.match(narrowed, { status: 201, text: /"abilities":\["workflows:read"\]/ })
  t.equal((await mintOver(t, () => writeRoles({ 'api-key': scopes['api-key'] }))).status, 422, 'the scope is gone')
  const guarded = { ...mintRoute, require: { ...route.require, ability: 'files:write' } }
  t.equal((await mintOver(t, () => writeRoutes(guarded))).status, 403, 'the route requires another ability')
  await reload(() => writeRoutes(mintRoute))
  const { answer: _, ...rest } = mintRoute
  const elsewhere = await mintOver(t, () => writeRoutes({ ...rest, upstream: 'platform' }))
  t.match(elsewhere, { status: 503, text: /retry-after: /i }, 'the path leads to an upstream')
  await reload(() => writeRoutes(mintRoute))
  const moved = { ...mintRoute, match: { ...mintRoute.match, path: '/organizations/:id/mints/:userId' } }
  t.equal((await mintOver(t, () => writeRoutes(moved))).status, 404, 'the path is gone')
})
