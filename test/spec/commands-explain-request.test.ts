import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { readAudit } from '../support/audit.ts'
import { call, type JsonValue } from '../support/client.ts'
import { runCommand } from '../support/command-line.ts'
import { startTestGateway, until, writeConfiguration } from '../support/gateway.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { users, serviceAccounts } = world
const { robot } = serviceAccounts

function makeFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** A gateway that audits into a file, its configuration for commands, and a way to ask under an id. */
const { ask, explain, file, admin, config } = await (async () => {
  const file = join(makeFolder(t), 'audit.jsonl')
  const settings = { audit: { sink: file, replica: 'one' } }
  const gateway = await startTestGateway(t, { world, settings })
  const admin = { host: '127.0.0.1', port: Number(new URL(gateway.admin).port) }
  const anyPort = { host: '127.0.0.1', port: 0 }
  const listeners = { public: anyPort, decision: anyPort, admin }
  const config = writeConfiguration(t, { world, settings: { ...settings, listeners } })
  const ask = async (id: string, path: string, headers: Record<string, string>): Promise<number> => {
    const before = readAudit(file).filter(({ requestId }) => requestId === id).length
    const { status } = await call(gateway.public, { path, headers: { ...headers, 'x-request-id': id } })
    await until(() => readAudit(file).filter(({ requestId }) => requestId === id).length > before, 'its line')
    return status
  }
  const explain = (...words: readonly string[]) => runCommand(['explain-request', ...words, '--config', config])
  return { ask, explain, file, admin: gateway.admin, config }
})()

t.test('a refusal is explained from the audit file with its facts and its route in the policy', async (t) => {
  t.equal(await ask('case-role', '/datasets', oauth(users.client)), 403)
  const { code, stdout, stderr } = await explain('case-role')
  t.match([code, stderr], [0, ''])
  t.match(stdout, /refused 403 role_insufficient \(check: role\) cause: role_too_low\n/)
  t.match(stdout, /why: .*lower than the route requires.*\n {2}do: .*higher role/)
  t.match(stdout, /request: +GET \/datasets, at the public listener\n/)
  t.match(stdout, /route: +\S+ \(\/.*\.yaml:\d+\)\n/)
  t.match(stdout, new RegExp(`caller: +user ${users.client.id}, human, by oauth\n`))
  t.match(stdout, new RegExp(`found: +${file}:\\d+, replica one/\\d+\n`))
  t.match(stdout, new RegExp(`next: +sallyport policy explain GET /datasets --user ${users.client.id} --organization`))
})

t.test('every match of an id is shown, from the file and from the admin listener', async (t) => {
  t.equal(await ask('case-many', '/datasets', {}), 401)
  t.equal(await ask('case-many', '/datasets', { 'x-oauth-access-token': 'nonsense' }), 401)
  const causes = ['credential_missing', 'malformed']
  const read = async (...places: readonly string[]): Promise<JsonValue> => {
    const { code, stdout, stderr } = await explain('case-many', '--json', ...places)
    t.match([code, stderr], [0, ''])
    return JSON.parse(stdout)
  }
  const both = await read()
  t.same(both.searched, [file, admin])
  for (const found of [both, await read('--audit', file), await read('--admin', admin)]) {
    t.same(found.matches.map(({ cause }: JsonValue) => cause).sort(), causes)
    t.ok(found.matches.every(({ meaning, remedy, status }: JsonValue) => meaning && remedy && status === 401))
  }
})

t.test('a failure of an upstream is explained once, by the audit and by the admin listener', async (t) => {
  t.equal(await ask('case-upstream', '/datasets', oauth(users.member)), 503)
  await until(() => readAudit(file).some(({ audit }) => audit === 'failure'), 'the line of its failure')
  for (const places of [[], ['--audit', file], ['--admin', admin]]) {
    const { code, stdout } = await explain('case-upstream', ...places)
    t.equal(code, 0)
    if (places[0] !== '--admin') t.match(stdout, / {2}allowed\n/)
    t.equal(stdout.split('failed 503 upstream_unavailable cause: upstream_unreachable\n').length, 2, stdout)
    t.match(stdout, /upstream: +platform\n(?:.*\n)* {2}took: +\d+ ms\n/)
  }
})

t.test('the audit trail says when an unknown token was revoked, and by whom', async (t) => {
  const minted = await runCommand([
    ...['tokens', 'mint', '--organization', String(world.organizations.acme.id), '--user', String(robot.id)],
    ...['--scope', 'api-key', '--config', config, '--json'],
  ])
  const { id, token } = JSON.parse(minted.stdout)
  t.equal((await runCommand(['tokens', 'revoke', String(id), '--config', config])).code, 0)
  t.equal(await ask('case-revoked', '/datasets', bearer(token)), 401)
  const { code, stdout } = await explain('case-revoked')
  t.equal(code, 0)
  t.match(stdout, /cause: token_unknown\n/)
  t.match(
    stdout,
    new RegExp(`token: +minted \\S+Z by an operator.*; revoked \\S+Z by an operator.*owner user ${robot.id}`),
  )
  t.notOk(stdout.includes(token) || stdout.includes(token.split('.')[1]), 'the secret is not shown')
  const { matches } = JSON.parse((await explain('case-revoked', '--json')).stdout)
  t.match(matches, [
    { tokenId: id, tokenTrail: [{ action: 'token.minted' }, { action: 'token.revoked', ownerId: robot.id }] },
  ])
})

t.test('a file of an attacker steers no terminal, and no credential in it is shown', async (t) => {
  const folder = makeFolder(t)
  const file = join(folder, 'audit.jsonl')
  const line = {
    ...{ audit: 'decision', time: '2030-01-01T00:00:00Z', requestId: 'case-evil', outcome: 'refused', status: 401 },
    ...{ reason: 'unauthenticated', cause: 'constructor', path: `/\u001b[2J/${robot.apiKey}/‮`, method: 'G\u0007T' },
    ...{ clientAddress: 5, route: { toString: 'x' }, subject: null, credential: { kind: users.member.jwt } },
  }
  const torn = `{"audit":"decision","requestId":"case-evil","path":"${JSON.stringify(line)}`
  const deep = `{"requestId":"case-evil","a":${'['.repeat(8_000)}`
  const others = ['{', '[]', 'null', `"case-evil"`, '{"requestId":"case-evil"}', 'x'.repeat(100_000), torn, deep, '\r']
  const bytes = [Buffer.from([0xff, 0xfe, 0, 0xc3, 10]), Buffer.from('case-evil', 'utf16le'), Buffer.alloc(70_000)]
  const text = [...others, JSON.stringify(line), '{"audit":"decision","requestId":"case-evil"'].join('\n')
  writeFileSync(file, Buffer.concat([...bytes, Buffer.from(`\n${text}`)]))
  const absent = join(folder, 'absent.yaml')
  for (const more of [[], ['--json']]) {
    const words = ['explain-request', 'case-evil', '--audit', file, '--config', absent, ...more]
    const { code, stdout, stderr } = await runCommand(words)
    t.equal(code, 0, stderr)
    t.match(stdout, /cause/)
    t.notMatch(stdout, /[^\x20-\x7e\n]|oat_|eyJ/)
    if (more.length === 0) t.match(stderr, /^note: policy and database were left out: .*absent\.yaml.*ENOENT/)
  }
})

t.test('a note has a line for each problem of an incomplete configuration', async (t) => {
  t.equal(await ask('case-note', '/datasets', {}), 401)
  const incomplete = join(makeFolder(t), 'incomplete.yaml')
  writeFileSync(incomplete, 'first: 1\nsecond: 2\n')
  const words = ['explain-request', 'case-note', '--audit', file, '--config', incomplete]
  const { code, stderr } = await runCommand(words)
  t.equal(code, 0)
  t.match(
    stderr,
    /^note: policy and database were left out: \S+incomplete\.yaml:\d+.*\n(?: {2}\S+incomplete\.yaml:\d+.*\n)+$/,
  )
  t.notMatch(stderr, /\\n/)
})

t.test('an id that is not found ends with 1, and a place that cannot be searched is named', async (t) => {
  t.match(await explain('case-nowhere', '--audit', file), { code: 1, stderr: /was not found in .*audit\.jsonl; name/ })
  t.match(await explain('case-nowhere'), { code: 1, stderr: /was not found in .* or http:/ })
  t.match(await explain('case-nowhere', '--audit', '/nowhere'), {
    code: 2,
    stderr: /\/nowhere cannot be read \(ENOENT\)/,
  })
  t.match(await explain('case-nowhere', '--admin', 'http://127.0.0.1:4'), { code: 1, stderr: /ECONNREFUSED/ })
  t.match(await explain('case-nowhere', '--admin', 'file:///etc'), { code: 2, stderr: /--admin takes the address/ })
  const secret = await explain(robot.apiKey)
  t.match(secret, { code: 2, stderr: /the request id is not one/ })
  t.notMatch(secret.stderr, /oat_/)
})
