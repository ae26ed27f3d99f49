import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import t, { type Test } from 'tap'
import { generatePem } from '../../gateway/tools/cli/keys.ts'
import { call, type JsonValue } from '../support/client.ts'
import { runCommand, runProcess } from '../support/command-line.ts'
import { openRawClient, openRoute, startRawUpstream, until } from '../support/gateway.ts'
import { nodeSwitches } from '../support/node-switches.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const skip = process.platform === 'linux' ? false : 'looks at processes by /proc'
const program = fileURLToPath(new URL('../../dist/gateway/main.js', import.meta.url))
const policies = fileURLToPath(new URL('../../policies', import.meta.url))

const world = await startTestWorld(t, { hasOwnProcess: true })

/** Variables of the machine must not reach the commands under test. */
const bare = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '' }

function makeDirectory(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

/** A variable reference in a configuration. */
const variable = (name: string): string => `\${${name}}`

const configuration = [
  'listeners:',
  '  public: { host: 127.0.0.1, port: 0 }',
  '  decision: { host: 127.0.0.1, port: 0 }',
  '  admin: { host: 127.0.0.1, port: 0 }',
  `database: { url: "${variable('DATABASE_URL')}" }`,
  `issuers: [{ issuer: "${world.oidc.issuer}", audience: sallyport-demo }]`,
  'identity: { keys: ["file:identity.pem"] }',
  `upstreams: { platform: { url: "${variable('UPSTREAM:-http://127.0.0.1:1')}" } }`,
  'policies: { directory: policies }',
  'drain: { delayMs: 400, timeoutMs: 5000 }',
].join('\n')

/** A folder with a configuration, a key and one public route; `change` edits the configuration. */
function writeInstallation(t: Test, change = (text: string): string => text): string {
  const directory = makeDirectory(t)
  mkdirSync(join(directory, 'policies'))
  writeFileSync(join(directory, 'policies', 'roles.yaml'), readFileSync(join(policies, 'roles.yaml')))
  writeFileSync(join(directory, 'policies', 'routes.yaml'), JSON.stringify({ routes: [openRoute] }))
  writeFileSync(join(directory, 'gateway.yaml'), change(configuration))
  writeFileSync(join(directory, 'identity.pem'), generatePem('EdDSA'), { mode: 0o600 })
  return directory
}

const serve = ['serve', '--config', 'gateway.yaml']
const database = { DATABASE_URL: world.databaseUrl }

t.test('bad usage ends with 2 and points to the help', async (t) => {
  const key = join(makeDirectory(t), 'key.pem')
  const usages = [
    ['frobnicate'],
    ['serve', '--frobnicate'],
    ['serve', '--config'],
    ['keys', 'generate', '--algorithm', 'HS256', '--out', key],
    [],
  ]
  const ends = await Promise.all(usages.map((args) => runCommand(args)))
  for (const [index, { code, stderr }] of ends.entries()) {
    t.equal(code, 2, usages[index]?.join(' ') ?? '')
    t.match(stderr, /--help|EdDSA|Usage/)
  }
})

t.test('a missing configuration ends with 2 and names the file', async (t) => {
  const { code, stderr, stdout } = await runCommand(['serve', '--config', 'no-such.yaml'])
  t.equal(code, 2)
  t.match(stderr, /^sallyport: no-such\.yaml: cannot be read: ENOENT/)
  t.equal(stdout, '')
})

const faults: Readonly<Record<string, readonly [change: (text: string) => string, message: RegExp]>> = {
  'an unknown key': [(text) => `${text}\nfrobnicate: 1`, /gateway\.yaml:11:1: the file does not know "frobnicate"/],
  'a missing variable': [
    (text) => text.replace('DATABASE_URL', 'NO_SUCH_URL'),
    /gateway\.yaml:5:18: environment variable NO_SUCH_URL is not set/,
  ],
  'a policy for an upstream that it does not have': [
    (text) => text.replace('upstreams: { platform', 'upstreams: { other'),
    /routes\.yaml:1:\d+: .*platform/,
  ],
}
for (const [what, [change, message]] of Object.entries(faults)) {
  t.test(`a configuration with ${what} ends with 2, file, line and column`, async (t) => {
    const { code, stderr, stdout } = await runCommand(serve, { cwd: writeInstallation(t, change), env: database })
    t.equal(code, 2)
    t.match(stderr, message)
    t.notMatch(stderr, /\n\s+at /, 'no stack')
    t.equal(stdout, '')
  })
}

t.test('a message about a configuration never quotes a secret', async (t) => {
  const cwd = writeInstallation(t)
  const { code, stderr } = await runCommand(serve, { cwd, env: { DATABASE_URL: 'mysql://user:hunter2@db/x' } })
  t.equal(code, 2)
  t.match(stderr, /gateway\.yaml:5:\d+: database\.url /)
  t.notMatch(stderr, /hunter2/)
})

t.test('a taken port ends with 1 and says what to do', async (t) => {
  const squatter = createServer().listen(0, '127.0.0.1')
  t.teardown(() => squatter.close())
  await once(squatter, 'listening')
  const address = squatter.address()
  const port = typeof address === 'object' ? address?.port : 0
  const cwd = writeInstallation(t, (text) => text.replace('port: 0', `port: ${port}`))
  const { code, stderr } = await runProcess(serve, { cwd, env: database })
  t.equal(code, 1)
  t.match(
    stderr,
    new RegExp(
      `^sallyport: gateway\\.yaml:\\d+:\\d+: listeners\\.\\w+\\.port: .*:${port} is taken by another program; stop it, or set another port \\(EADDRINUSE\\)\n$`,
    ),
  )
})

t.test('a database that cannot be reached ends a migration with 1 and says what to do', async (t) => {
  const cwd = writeInstallation(t)
  const env = { DATABASE_URL: 'postgres://user:hunter2@127.0.0.1:1/x' }
  const { code, stderr } = await runCommand(['migrate', '--config', 'gateway.yaml'], { cwd, env })
  t.equal(code, 1)
  t.match(
    stderr,
    /^sallyport: database\.url: no server listens there; start it, or mend host and port \(ECONNREFUSED\)\n$/,
  )
  t.notMatch(stderr, /hunter2/)
})

t.test('a database that does not exist is named by its key, and by what to do', async (t) => {
  const url = new URL(world.databaseUrl)
  url.pathname = '/nowhere'
  const { code, stderr } = await runCommand(['migrate', '--config', 'gateway.yaml'], {
    cwd: writeInstallation(t),
    env: { DATABASE_URL: url.href },
  })
  t.equal(code, 1)
  t.equal(stderr, 'sallyport: database.url: the server has no such database; create it, or mend its name (3D000)\n')
})

type Help = Readonly<{ path: readonly string[]; help: string }>

async function listCommands(path: readonly string[]): Promise<readonly Help[]> {
  const { code, stdout } = await runCommand([...path, '--help'])
  if (code !== 0) throw new Error(`${path.join(' ')} --help ended with ${code}`)
  const [, list = ''] = /\nCommands:\n((?: {2}.*\n)+)/.exec(stdout) ?? []
  const names = [...list.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name]) => name ?? '').filter((name) => name !== 'help')
  if (names.length === 0) return [{ path, help: stdout }]
  return (await Promise.all(names.map((name) => listCommands([...path, name])))).flat()
}

t.test('every command has a help with an example', async (t) => {
  const commands = await listCommands([])
  t.ok(commands.length >= 4)
  for (const { path, help } of commands) t.match(help, /\nExample:\n {2}\$ /, path.join(' '))
})

t.test('a generated key is its owner’s alone, and never overwrites another', async (t) => {
  const file = join(makeDirectory(t), 'new', 'identity.pem')
  const algorithms = ['EdDSA', 'ES256']
  const generate = (algorithm: string) =>
    runCommand(['keys', 'generate', '--out', `${file}.${algorithm}`, '--algorithm', algorithm, '--json'])
  const made = await Promise.all(algorithms.map(generate))
  for (const [index, algorithm] of algorithms.entries()) {
    const { code, stdout = '', stderr = '' } = made[index] ?? {}
    t.equal(code, 0, stderr)
    t.match(JSON.parse(stdout), { file: `${file}.${algorithm}`, kid: String, algorithm })
    t.equal(statSync(`${file}.${algorithm}`).mode & 0o777, 0o600)
    t.notMatch(stdout + stderr, /PRIVATE|[A-Za-z0-9+/]{60}/)
  }
  const named = await runCommand(['keys', 'generate', '--out', relative(process.cwd(), `${file}.named`)])
  t.match(named.stdout, `as file:${file}.named\n`, 'a path that any configuration can have, wherever it lies')
  const before = readFileSync(`${file}.EdDSA`, 'utf8')
  const again = await runCommand(['keys', 'generate', '--out', `${file}.EdDSA`])
  t.equal(again.code, 2)
  t.match(again.stderr, /exists/)
  t.equal(readFileSync(`${file}.EdDSA`, 'utf8'), before)
})

async function createDatabase(t: Test, name: string): Promise<Record<string, string>> {
  const client = new pg.Client({ connectionString: world.databaseUrl })
  await client.connect()
  t.teardown(() => client.end())
  await client.query(`create database ${name} template template0`)
  const url = new URL(world.databaseUrl)
  url.pathname = `/${name}`
  return { DATABASE_URL: url.href }
}

const migrate = ['migrate', '--config', 'gateway.yaml', '--json']

t.test('a second migration finds nothing to do', async (t) => {
  const cwd = writeInstallation(t)
  const env = await createDatabase(t, 'migrated_twice')
  const first = await runCommand(migrate, { cwd, env })
  t.equal(first.code, 0, first.stderr)
  t.ok(JSON.parse(first.stdout).applied.length > 0)
  const second = await runCommand(migrate, { cwd, env })
  t.equal(second.code, 0, second.stderr)
  t.same(JSON.parse(second.stdout), { applied: [], created: [], missing: [] })
})

t.test('one of several migrations at the same time works, and the others wait', async (t) => {
  const cwd = writeInstallation(t)
  const env = await createDatabase(t, 'migrated_at_once')
  const ends = await Promise.all([1, 2, 3].map(() => runProcess(migrate, { cwd, env })))
  t.same(
    ends.map(({ code }) => code),
    [0, 0, 0],
    ends.map(({ stderr }) => stderr).join(),
  )
  t.equal(ends.filter(({ stdout }) => JSON.parse(stdout).applied.length > 0).length, 1)
})

const adminPaths = ['/healthz', '/readyz', '/metrics', '/.well-known/jwks.json']

t.test('the admin listener tells health, readiness, metrics and keys', async (t) => {
  const get = (path: string) => call(world.admin, { path })
  t.match(await get('/healthz'), { status: 200 })
  const ready = await get('/readyz')
  t.match(ready, { status: 200 })
  t.match(ready.json(), { status: 'ready', checks: { database: 'ok', policy: 'ok' } })
  const metrics = await get('/metrics')
  t.match(metrics, { status: 200, headers: { 'content-type': /^text\/plain/ } })
  t.match(metrics.text, /^sallyport_requests_in_flight \d+$/m)
  t.match((await get('/.well-known/jwks.json')).json(), { keys: [{ kid: String }] })
  t.equal((await get('/nowhere')).status, 404)
  t.equal((await call(world.admin, { method: 'POST', path: '/healthz' })).status, 405)
})

t.test('nothing of the admin listener is on the public one', async (t) => {
  for (const path of [...adminPaths, '/'])
    for (const headers of [{}, oauth(world.users.owner)])
      t.equal((await world.call({ path, headers })).status, 404, path)
})

t.test('metrics count by route, never by what a client made up', async (t) => {
  await world.call({ path: '/nowhere/made-up-path', headers: oauth(world.users.owner) })
  await world.call({ path: '/public/made-up-path?made-up-query', headers: oauth(world.users.owner) })
  await world.raw('MKCOL /made-up-path HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n')
  const { text } = await call(world.admin, { path: '/metrics' })
  t.match(text, /sallyport_requests_total\{route="public\.any",method="GET",status="200"\} \d+/)
  t.match(text, /sallyport_decisions_total\{route="none",reason="route_not_found",cause="route_not_found"\} \d+/)
  t.notMatch(text, /made-up|MKCOL|member@|demo-owner/)
})

const readLog = (): readonly string[] => readFileSync(join(world.directory, 'gateway.log'), 'utf8').trim().split('\n')

async function findLogLines(requestId: string): Promise<readonly string[]> {
  await until(() => readLog().some((line) => line.includes(requestId)), 'the log line')
  return readLog().filter((line) => line.includes(requestId))
}

t.test('a request is one structured log line, without its query, credentials and body', async (t) => {
  const headers = { ...oauth(world.users.owner), 'x-request-id': 'logged-1', cookie: 'session=hunter2' }
  await world.call({ method: 'POST', path: '/public/logged?key=hunter2', headers, body: 'hunter2' })
  const [line = '', ...more] = await findLogLines('logged-1')
  t.same(more, [])
  t.match(JSON.parse(line), {
    level: 'info',
    time: /^\d{4}-\d\d-\d\dT[\d:.]+Z$/,
    requestId: 'logged-1',
    method: 'POST',
    path: '/public/logged',
    route: 'public.any',
    status: 200,
    reason: 'allowed',
    userId: world.users.owner.id,
    organizationId: world.organizations.acme.id,
    upstream: 'platform',
    durationMs: Number,
  })
  t.notMatch(line, /hunter2/)
})

t.test('a line of the log is short enough to stay whole on a pipe that others write to', async (t) => {
  const headers = { ...oauth(world.users.owner), 'x-request-id': 'logged-long' }
  await world.call({ path: `/public/${'x'.repeat(8_000)}`, headers })
  const [line = ''] = await findLogLines('logged-long')
  t.equal(JSON.parse(line).path.length, 1_024)
  t.ok(line.length < 4_096)
})

t.test('a refusal is one log line with its reason', async (t) => {
  await world.call({ path: '/public/x', headers: { authorization: 'Bearer oat_hunter2', 'x-request-id': 'logged-2' } })
  const lines = await findLogLines('logged-2')
  t.equal(lines.length, 1)
  t.match(JSON.parse(lines[0] ?? ''), { status: 401, reason: 'unauthenticated' })
})

t.test('no secret is ever in the log', async (t) => {
  const { robot } = world.serviceAccounts
  await world.call({ path: '/datasets', headers: { ...bearer(robot.apiKey), 'x-request-id': 'logged-3' } })
  await world.call({ path: '/datasets', headers: oauth(world.users.member) })
  await findLogLines('logged-3')
  const log = readLog().join('\n')
  const password = new URL(world.databaseUrl).password
  for (const secret of [robot.apiKey, robot.apiSecret, world.users.member.jwt, password]) t.notOk(log.includes(secret))
  t.notMatch(log, /eyJ|oat_|PRIVATE/)
})

type Serving = Readonly<{ child: ChildProcess; public: string; admin: string; ended: Promise<number | null> }>

async function startServing(t: Test, upstream: string, change?: (text: string) => string): Promise<Serving> {
  const child = spawn(process.execPath, [...nodeSwitches, program, ...serve], {
    cwd: writeInstallation(t, change),
    env: { ...bare, ...database, UPSTREAM: upstream },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  let log = ''
  child.stdout.on('data', (chunk: Buffer) => {
    log += chunk.toString()
  })
  const ended = once(child, 'exit').then(([code]) => code as number | null)
  await until(() => log.includes('"listening"'), 'the listeners', 60_000)
  const line: JsonValue = JSON.parse(log.split('\n').find((text) => text.includes('"listening"')) ?? '')
  return { child, public: `http://127.0.0.1:${line.public.port}`, admin: `http://127.0.0.1:${line.admin.port}`, ended }
}

const readiness = async ({ admin }: Serving): Promise<number> => (await call(admin, { path: '/readyz' })).status

t.test('SIGTERM: unready at once, accepting for a while, finishing what is in flight, and out with 0', async (t) => {
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    if (!soFar.includes('/slow')) socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
  })
  const serving = await startServing(t, upstream.url, (text) => text.replace('delayMs: 400', 'delayMs: 4000'))
  await until(async () => (await readiness(serving)) === 200, 'readiness')
  const slow = await openRawClient(t, serving.public)
  slow.send('GET /slow HTTP/1.1\r\nHost: h\r\n\r\n')
  const silent = await openRawClient(t, serving.public)
  await until(() => upstream.sockets().length === 1, 'the slow request at the upstream')

  const termedAtMs = performance.now()
  serving.child.kill('SIGTERM')
  await until(async () => (await readiness(serving)) === 503, 'unreadiness', 2_000)
  t.equal((await call(serving.public, { path: '/during' })).status, 200, 'still accepting')
  t.ok(performance.now() - termedAtMs < 4_000, 'within the delay')

  await until(() => isRefused(serving.public), 'the end of accepting')
  t.ok(performance.now() - termedAtMs >= 4_000, 'after the delay')
  await silent.closed()
  upstream.sockets()[0]?.end('HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nfinished')
  t.match(await slow.until(/finished$/), /^HTTP\/1\.1 200 /)
  t.equal(await serving.ended, 0)
})

async function isRefused(origin: string): Promise<boolean> {
  try {
    await call(origin, { path: '/after' })
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ECONNREFUSED'
  }
}

t.test('SIGTERM: requests that do not finish are cut at the drain’s time-out, and the exit code is 0', async (t) => {
  const upstream = await startRawUpstream(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart')
  })
  const serving = await startServing(t, upstream.url, (text) =>
    text.replace('delayMs: 400', 'delayMs: 0').replace('timeoutMs: 5000', 'timeoutMs: 300'),
  )
  const client = await openRawClient(t, serving.public)
  client.send('GET /endless HTTP/1.1\r\nHost: h\r\n\r\n')
  await client.until(/part$/)
  serving.child.kill('SIGTERM')
  t.match(await client.closed(), /part$/)
  t.equal(await serving.ended, 0)
})

t.test('an idle kept connection does not hold up the end', async (t) => {
  const upstream = await startRawUpstream(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
  })
  const serving = await startServing(t, upstream.url, (text) =>
    text.replace('delayMs: 400', 'delayMs: 0').replace('timeoutMs: 5000', 'timeoutMs: 30000'),
  )
  const client = await openRawClient(t, serving.public)
  client.send('GET /x HTTP/1.1\r\nHost: h\r\n\r\n')
  await client.until(/ok$/)
  const termedAtMs = performance.now()
  serving.child.kill('SIGTERM')
  t.equal(await serving.ended, 0)
  t.ok(performance.now() - termedAtMs < 20_000, 'long before the drain’s time-out')
})

t.test('Ctrl-C stops a demo without leaving a process, a directory or its file', { skip }, async (t) => {
  const cwd = makeDirectory(t)
  const child = spawn(process.execPath, [program, 'demo'], { cwd, env: bare, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => child.kill('SIGKILL'))
  let complaint = ''
  child.stderr.on('data', (chunk: Buffer) => {
    complaint += chunk.toString()
  })
  let banner = ''
  child.stdout.on('data', (chunk: Buffer) => {
    banner += chunk.toString()
  })
  const file = join(cwd, '.sallyport', 'demo.json')
  await until(() => existsSync(file) || child.exitCode !== null, 'the demo’s file', 180_000)
  t.equal(child.exitCode, null, complaint)
  t.equal(statSync(file).mode & 0o777, 0o600)
  const demo: JsonValue = JSON.parse(readFileSync(file, 'utf8'))
  await until(() => banner.includes(demo.public), 'the banner')
  t.equal((banner.match(/^\s*curl /gm) ?? []).length, 5, 'five lines to paste')
  t.equal((await call(demo.public, { path: '/status' })).status, 200)
  const data = dataDirectoryOf(demo.pids.postgres)
  t.ok(existsSync(data))

  const ended = once(child, 'exit')
  child.kill('SIGINT')
  t.same(await ended, [0, null])
  t.notOk(existsSync(file))
  await until(() => processesNaming(data).length === 0, 'the end of every process of the database')
  t.notOk(existsSync(data))
  for (const pid of Object.values(demo.pids)) t.notOk(existsSync(`/proc/${pid}`), `process ${pid}`)
  t.same(processesNaming(cwd), [])
})

function dataDirectoryOf(postmaster: number): string {
  const args = readFileSync(`/proc/${postmaster}/cmdline`, 'utf8').split('\0')
  return args[args.indexOf('-D') + 1] ?? ''
}

/** Processes whose command line or working directory names a path. */
function processesNaming(path: string): readonly string[] {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(path)
    } catch {
      return false // it has just ended
    }
  })
}
