import pg from 'pg'
import t, { type Test } from 'tap'
import { startIntrospection } from '../advisories/introspection.ts'
import { runCommand } from '../support/command-line.ts'
import { writeConfiguration } from '../support/gateway.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { member } = world.users
const { robot } = world.serviceAccounts
const config = writeConfiguration(t, { world })

type Check = Readonly<{ check: string; result: 'pass' | 'fail' | 'unknown' }>

/** Runs the command on a text, and proves that no part of the secret comes out. */
async function inspect(t: Test, input: string, secret: string) {
  const [plain, json] = await Promise.all([
    runCommand(['token', 'inspect', '--config', config], { input }),
    runCommand(['token', 'inspect', '--json', '--config', config], { input: `${input}\n` }),
  ])
  for (const text of [plain.stdout, plain.stderr, json.stdout, json.stderr]) t.notOk(text.includes(secret), 'no secret')
  t.equal(plain.code, json.code, 'one verdict')
  const said = JSON.parse(json.stdout) as {
    cause: string | null
    rule?: string
    checks: Check[]
    facts: Record<string, unknown>
  }
  return { ...said, code: json.code, plain: plain.stdout, failed: said.checks.find(({ result }) => result === 'fail') }
}

/** The signature of a JWT, which makes a credential of its readable claims. */
const signatureOf = (jwt: string): string => jwt.slice(jwt.lastIndexOf('.') + 1)

t.test('a JWT that the gateway takes passes every check', async (t) => {
  const { code, cause, checks, facts, plain } = await inspect(t, member.jwt, signatureOf(member.jwt))
  t.same([code, cause], [0, null])
  t.ok(checks.length > 8 && checks.every(({ result }) => result === 'pass'))
  t.match(facts, { user: member.id, iss: world.oidc.issuer, aud: 'sallyport-demo', exp: Number })
  t.match(plain, /signature +pass\n/)
  t.match(plain, /^exp +(\d+) \(2\d{3}-\d\d-\d\dT[\d:.]+Z\)$/m, 'times are dates too')
  t.match(plain, /no check failed\n$/)
})

t.test('each JWT that the gateway refuses names the check and the cause', async (t) => {
  const now = Math.floor(Date.now() / 1000)
  const mint = (claims: Readonly<Record<string, unknown>>) => world.mint({ sub: member.sub, claims })
  const [head, payload, signature] = member.jwt.split('.') as [string, string, string]
  const forged = `${head}.${payload}.${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`
  for (const [jwt, cause, check] of [
    [await mint({ aud: 'other' }), 'wrong_audience', 'audience'],
    [await mint({ iss: 'https://issuer.example' }), 'unknown_issuer', 'issuer known'],
    [await mint({ exp: now - 60 }), 'expired', 'time bounds'],
    [await mint({ nbf: now + 600 }), 'not_yet_valid', 'time bounds'],
    [await mint({ cnf: { jkt: 'x' } }), 'proof_missing', 'cnf and events'],
    [await mint({ typ: 'ID' }), 'not_an_access_token', 'cnf and events'],
    [forged, 'bad_signature', 'signature'],
    ['not-a-token', 'malformed', 'syntax'],
    [`${head}..aXY.dGV4dA.dGFn`, 'encrypted', 'syntax'],
    [`${head}.a2V5.aXY.${'dGV4dA'.repeat(5_000)}.dGFn`, 'encrypted', 'syntax'],
  ] as const) {
    const said = await inspect(t, jwt, signatureOf(jwt))
    t.same([said.code, said.cause, said.failed?.check], [1, cause, check], cause)
    t.match(said.plain, new RegExp(`refused: ${cause}\n`))
  }
})

t.test('a JWT that is not an access token names the rule', async (t) => {
  for (const [claims, rule] of [
    [{ typ: 'ID' }, 'its `typ` is `ID`'],
    [{ token_use: 'id' }, 'its `token_use` is `id`'],
    [{ nonce: 'n', at_hash: 'h' }, 'it has `nonce` with `at_hash` or `c_hash`'],
    [{ typ: 'Refresh' }, 'its `typ` or `token_use` is that of a refresh, offline or logout token'],
    [{ events: {} }, 'the token has `events`'],
  ] as const) {
    const jwt = await world.mint({ sub: member.sub, claims })
    const said = await inspect(t, jwt, signatureOf(jwt))
    t.match(said, { code: 1, cause: 'not_an_access_token', rule })
    t.ok(said.plain.includes(`\nrule: ${rule}\n`), said.plain)
  }
})

t.test('a JWT that a logout refuses names the logouts, and those of others pass', async (t) => {
  const issuers = [{ issuer: world.oidc.issuer, audience: 'sallyport-demo', logout: { audience: 'client' } }]
  const told = writeConfiguration(t, { world, settings: { issuers } })
  const run = async (jwt: string) => {
    const { code, stdout } = await runCommand(['token', 'inspect', '--json', '--config', told], { input: jwt })
    const { cause, checks } = JSON.parse(stdout) as { cause: string | null; checks: Check[] }
    return [code, cause, checks.find(({ check }) => check === 'logouts')?.result]
  }
  t.same(await run(member.jwt), [0, null, 'pass'])
  const database = new pg.Client({ connectionString: world.databaseUrl })
  await database.connect()
  t.teardown(() => database.end())
  await database.query(
    `insert into logouts (issuer, subject, at, expires_at)
     values ($1, $2, now() + interval '1 minute', now() + interval '1 day')`,
    [world.oidc.issuer, member.sub],
  )
  t.same(await run(member.jwt), [1, 'signed_out', 'fail'])
  t.same(await run(world.users.owner.jwt), [0, null, 'pass'])
  await database.query('delete from logouts')
})

t.test('the value of the configuration stands beside an issuer or audience that differs', async (t) => {
  for (const [claims, wanted] of [
    [{ iss: 'https://issuer.example' }, `the configuration has the issuers "${world.oidc.issuer}"`],
    [{ aud: 'other' }, 'the configuration has the audience "sallyport-demo" for this issuer'],
  ] as const) {
    const input = await world.mint({ sub: member.sub, claims })
    const { stderr } = await runCommand(['token', 'inspect', '--config', config], { input })
    t.match(stderr, `note: ${wanted}\n`)
  }
})

t.test('a claim that holds a token or steers the terminal is told without both', async (t) => {
  const jwt = await world.mint({ sub: member.sub, claims: { aud: ['other', robot.apiKey, '\u001b[2J'] } })
  const { plain, cause } = await inspect(t, jwt, robot.apiKey.slice(robot.apiKey.indexOf('.') + 1))
  t.equal(cause, 'wrong_audience')
  t.match(plain, /^aud +\[redacted\]$/m)
  t.notOk(plain.includes('\u001b'))
})

t.test('a JWT as Bearer passes where its issuer allows that', async (t) => {
  const issuers = [{ issuer: world.oidc.issuer, audience: 'sallyport-demo', tokens: { header: false, bearer: true } }]
  const opened = writeConfiguration(t, { world, settings: { issuers } })
  const run = async (input: string) => {
    const { code, stdout } = await runCommand(['token', 'inspect', '--json', '--config', opened], { input })
    return [code, JSON.parse(stdout).cause]
  }
  const lines = [`Authorization: Bearer ${member.jwt}`, member.jwt, `x-oauth-access-token: ${member.jwt}`]
  const said = await Promise.all(lines.map(run))
  // A bare token says nothing of its carrier.
  t.same(said, [
    [0, null],
    [0, null],
    [1, 'carrier_not_allowed'],
  ])
})

t.test('a JWT in a header of a proxy passes where its issuer names that', async (t) => {
  const tokens = { headers: ['cf-access-jwt-assertion'] }
  const issuers = [{ issuer: world.oidc.issuer, audience: 'sallyport-demo', tokens }]
  const opened = writeConfiguration(t, { world, settings: { issuers } })
  for (const [line, code, cause] of [
    [`Cf-Access-Jwt-Assertion: ${member.jwt}`, 0, null],
    ['cf-access-jwt-assertion: oat_x', 1, 'token_in_oauth_header'],
    [`x-goog-iap-jwt-assertion: ${member.jwt}`, 1, 'malformed'],
  ] as const) {
    const run = await runCommand(['token', 'inspect', '--json', '--config', opened], { input: line })
    t.same([run.code, JSON.parse(run.stdout).cause], [code, cause], line.slice(0, 26))
  }
})

t.test('an opaque token is asked about, and fails by the check of its cause', async (t) => {
  const endpoint = await startIntrospection(t)
  const { issuer } = world.oidc
  const introspection = { endpoint: endpoint.endpoint, clientId: 'us', clientSecret: 'canary-secret' }
  const issuers = [{ issuer, audience: 'sallyport-demo', introspection }]
  const asking = writeConfiguration(t, { world, settings: { issuers } })
  const exp = Math.floor(Date.now() / 1000) + 600
  const active = { active: true, iss: issuer, aud: 'sallyport-demo', sub: member.sub, exp, token_type: 'Bearer' }
  for (const [answer, code, cause, check] of [
    [active, 0, null, undefined],
    [{ active: false }, 1, 'token_inactive', 'active'],
    [{ ...active, aud: 'other' }, 1, 'wrong_audience', 'audience'],
    [{ ...active, token_type: undefined }, 1, 'not_an_access_token', 'access token'],
    ['garbled', 1, 'issuer_unavailable', 'issuer asked'],
  ] as const) {
    endpoint.answer('an-opaque-token', answer)
    const run = await runCommand(['token', 'inspect', '--json', '--config', asking], { input: 'an-opaque-token' })
    const said = JSON.parse(run.stdout) as { kind: string; cause: string; checks: Check[]; facts: { user?: number } }
    const failed = said.checks.find(({ result }) => result === 'fail')?.check
    t.same([run.code, said.kind, said.cause, failed], [code, 'opaque', cause, check])
    t.equal(said.facts.user, code === 0 ? member.id : undefined)
    t.notMatch(run.stdout + run.stderr, /canary-secret|an-opaque-token/)
  }
})

t.test('a JWT in the header of API tokens fails the check of its carrier', async (t) => {
  const { code, cause, failed } = await inspect(t, `Authorization: Bearer ${member.jwt}`, signatureOf(member.jwt))
  t.same([code, cause, failed?.check], [1, 'jwt_in_authorization', 'carrier'])
})

t.test('an API token passes every check, and fails by its cause', async (t) => {
  const secretOf = (token: string): string => token.slice(token.indexOf('.') + 1)
  const { apiSecret } = robot
  const good = await inspect(t, apiSecret, secretOf(apiSecret))
  t.same([good.code, good.cause, good.facts.user], [0, null, robot.id])
  t.ok(good.checks.every(({ result }) => result === 'pass'))
  const altered = `${apiSecret.slice(0, -1)}${apiSecret.endsWith('0') ? '1' : '0'}`
  const bad = await inspect(t, altered, secretOf(altered))
  t.same([bad.code, bad.failed?.check], [1, 'syntax'])
})

t.test('an empty input is an error that says what to do, and ends with 2', async (t) => {
  const { code, stderr } = await runCommand(['token', 'inspect', '--config', config])
  t.equal(code, 2)
  t.match(stderr, /pipe one into this command/)
})
