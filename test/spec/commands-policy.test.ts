import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { buildMatrix } from '../../gateway/analyze/matrix.ts'
import { loadPolicy } from '../../gateway/policy/load.ts'
import { runCommand } from '../support/command-line.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const policies = fileURLToPath(new URL('../../policies', import.meta.url))

const run = (...words: string[]) => runCommand(['policy', ...words])

t.test('policy check passes the shipped policy, and ends with 1 for a warning where it is strict', async (t) => {
  const passed = await run('check', '--policies', policies)
  t.match(passed, { code: 0, stdout: /\d+ routes, 4 roles, no mistakes, \d+ warnings\n$/ })
  t.match(await run('check', '--policies', policies, '--strict'), { code: 1 })
  t.match(JSON.parse((await run('check', '--policies', policies, '--json')).stdout), { roles: 4, warnings: Array })
})

t.test('policy check tells of mistakes with file, line and column, and ends with 2', async (t) => {
  const folder = t.testdir({ 'bad.yaml': 'routes:\n  - id: x\n    match: { path: nowhere }\n' })
  t.match(await run('check', '--policies', folder), { code: 2, stderr: /bad\.yaml:2:\d+: / })
  t.match(await run('check', '--policies', `${folder}/gone`), { code: 2, stderr: /cannot be read: ENOENT/ })
})

t.test('policy check shows the lines that lead to a mistake or a warning, and none of a configuration', async (t) => {
  const row = (id: string, role: string): string =>
    `  - id: ${id}\n    match: { methods: [GET], path: /${id} }\n    surface: platform\n    upstream: u\n    require: { role: ${role} }\n`
  const roles = readFileSync(`${policies}/roles.yaml`, 'utf8')
  const folder = t.testdir({ 'roles.yaml': roles, 'bad.yaml': `routes:\n${row('a', 'org-owner')}${row('b', 'king')}` })
  const bad = await run('check', '--policies', folder)
  t.equal(bad.code, 2)
  const frame =
    '   9 |     surface: platform\n  10 |     upstream: u\n  11 |     require: { role: king }\n     |                      ^\n'
  t.ok(bad.stderr.includes(`/bad.yaml:11:22: error: route "b": role "king" is not listed`), bad.stderr)
  t.ok(bad.stderr.includes(frame), bad.stderr)
  t.match(bad.stderr, /1 mistake\n$/)
  const told = await run('check', '--policies', folder, '--json')
  t.match(JSON.parse(told.stdout), { problems: [{ file: `${folder}/bad.yaml`, line: 11, column: 22 }] })

  const warned = t.testdir({ 'roles.yaml': roles, 'good.yaml': `routes:\n${row('a', 'org-owner')}` })
  const good = await run('check', '--policies', warned)
  t.match(good.stdout, /good\.yaml:2: warning: .*\n {2}1 \| routes:\n {2}2 \| {3}- id: a\n {4}\| {3}\^\n/)

  const config = `${t.testdir({ 'gateway.yaml': 'database:\n  url: hunter2\n  nonsense: 1\n' })}/gateway.yaml`
  const configured = await run('check', '--config', config)
  t.match(configured, { code: 2, stderr: /gateway\.yaml:3:\d+: error: / })
  t.match(
    configured.stderr,
    /^sallyport: the configuration cannot be used; --policies FOLDER checks a policy without it\n/,
  )
  t.notMatch(configured.stderr, /hunter2/)
})

t.test(
  'policy check names issuers whose cookie counted for the pages of CORS, without a line of the configuration',
  async (t) => {
    const check = async (tokens: object, cors: object | undefined) => {
      const settings = {
        issuers: [{ issuer: 'https://login.example', audience: 'a', tokens }],
        upstreams: Object.fromEntries(
          ['platform', 'agents', 'files', 'graphql', 'data'].map((name) => [name, { url: 'http://127.0.0.1:1' }]),
        ),
        database: { url: 'postgres://u:hunter2@127.0.0.1:1/d' },
        identity: { keys: ['file:identity.pem'] },
        policies: { directory: policies },
        ...(cors && { cors }),
      }
      const folder = t.testdir({ 'gateway.yaml': JSON.stringify(settings), 'identity.pem': 'x' })
      return run('check', '--config', `${folder}/gateway.yaml`)
    }
    const origins = ['https://app.example', '*']
    const { stdout, stderr, code } = await check({ cookie: '__Host-token' }, { origins })
    t.match({ stderr, code }, { stderr: '', code: 0 })
    t.match(
      stdout,
      /gateway\.yaml: warning: issuers: tokens\.cookie of https:\/\/login\.example [^\n]*\(https:\/\/app\.example\)[^\n]*\n\d/,
    )
    t.notMatch(stdout, /hunter2/)
    for (const [tokens, cors] of [
      [{ cookie: '__Host-token' }, undefined],
      [{ cookie: '__Host-token' }, { origins: ['*'] }],
      [{ cookie: '__Host-token', origins: ['https://app.example'] }, { origins }],
      [{ subprotocol: true }, { origins }],
    ] as const)
      t.notMatch((await check(tokens, cors)).stdout, /tokens\.cookie/)
    const headers = ['cf-access-jwt-assertion']
    t.match((await check({ headers }, { origins })).stdout, /warning: issuers: tokens\.headers of /)
    const refused = await check({ headers: ['x-organization-id'] }, undefined)
    t.match(refused, { code: 2, stderr: /gateway\.yaml:\d+:\d+: error: issuers: tokens\.headers .* role of its own/ })
  },
)

t.test('policy check names preflights that are permitted to no origin', async (t) => {
  const check = async (more: Readonly<Record<string, unknown>>) => {
    const settings = {
      issuers: [{ issuer: 'https://login.example', audience: 'a' }],
      upstreams: Object.fromEntries(
        ['platform', 'agents', 'files', 'graphql', 'data'].map((name) => [name, { url: 'http://127.0.0.1:1' }]),
      ),
      database: { url: 'postgres://u@127.0.0.1:1/d' },
      identity: { keys: ['file:identity.pem'] },
      policies: { directory: policies },
      ...more,
    }
    const folder = t.testdir({ 'gateway.yaml': JSON.stringify(settings), 'identity.pem': 'x' })
    return (await run('check', '--config', `${folder}/gateway.yaml`)).stdout
  }
  const listeners = { decision: { preflights: 'permit' } }
  t.match(await check({ listeners }), /gateway\.yaml: warning: listeners\.decision\.preflights: [^\n]*cors\.origins/)
  t.notMatch(await check({ listeners, cors: { origins: ['https://app.example'] } }), /preflights/)
  t.notMatch(await check({}), /preflights/)
})

t.test('a reader of the output may stop before its end', async (t) => {
  const program = fileURLToPath(new URL('../../dist/gateway/main.js', import.meta.url))
  const piped = `"$0" "$1" policy matrix --policies "$2" --format json | head -c 10; exit "\${PIPESTATUS[0]}"`
  const shell = spawnSync('bash', ['-c', piped, process.execPath, program, policies], { encoding: 'utf8' })
  t.match(shell, { status: 0, stderr: '' })
  t.equal(shell.stdout.length, 10)
})

t.test('policy explain ends with 0 where the request would pass, else with 1', async (t) => {
  const ask = (...words: string[]) => run('explain', ...words, '--policies', policies)
  t.match(await ask('GET', '/datasets', '--role', 'org-member'), {
    code: 0,
    stdout: /route +pass .*\nallowed, by route datasets\.list/s,
  })
  t.match(await ask('get', '/datasets', '--role', 'org-client'), {
    code: 1,
    stdout: /role +FAIL .*\n\nrefused: 403/,
  })
  t.match(await ask('POST', '/datasets', '--role', 'org-owner', '--scope', 'api-key'), {
    code: 1,
    stdout: /ability +FAIL/,
  })
  t.match(await ask('GET', '/datasets', '--anonymous'), { code: 1, stdout: /refused: 401/ })
  const owner = ['/datasets', '--role', 'org-owner', '--credential']
  t.match(await ask('GET', ...owner, 'none'), { code: 1, stdout: /refused: 401/ })
  t.match(await ask('POST', ...owner, 'oauth'), { code: 0, stdout: /\nallowed, by route datasets\.create/ })
  t.match(await ask('POST', ...owner, 'api-key'), { code: 1, stdout: /ability +FAIL/ })
  t.match(await ask('POST', ...owner, 'a-key'), { code: 2, stderr: /no scope "a-key"; use one of api-key/ })
  t.match(await ask('POST', ...owner, 'oauth', '--anonymous'), { code: 2, stderr: /give one of them/ })
  t.match(await ask('GET', '/datasets', '--role', 'king'), { code: 2, stderr: /no role "king"; use one of org-client/ })
})

t.test('policy matrix prints each format, and refuses others', async (t) => {
  t.match((await run('matrix', '--policies', policies)).stdout, /^route +methods +path +anonymous/)
  t.match((await run('matrix', '--policies', policies, '--format', 'csv')).stdout, /^route,methods,path,anonymous,/)
  t.match(await run('matrix', '--policies', policies, '--format', 'pdf'), {
    code: 2,
    stderr: /use one of table, markdown/,
  })
})

t.test('the matrix is what the running gateway answers, cell by cell', async (t) => {
  const world = await startTestWorld(t)
  const { users, serviceAccounts, organizations, agents, clusters } = world
  const { robot, robotAdmin } = serviceAccounts
  const callers: Readonly<Record<string, Record<string, string>>> = {
    'anonymous/none': {},
    'no organization/oauth': oauth(users.homeless),
    'org-client/oauth': oauth(users.client),
    'org-member/oauth': oauth(users.member),
    'org-admin/oauth': oauth(users.admin),
    'org-owner/oauth': oauth(users.owner),
    'admin in org-client/oauth': oauth(users.platformAdmin),
    'org-member/api-key': bearer(robot.apiKey),
    'org-member/api-secret': bearer(robot.apiSecret),
    'org-admin/api-key': bearer(robotAdmin.apiKey),
    'org-admin/api-secret': bearer(robotAdmin.apiSecret),
  }
  const upstreams = new Set(['platform', 'agents', 'files', 'graphql', 'data'])
  let compared = 0
  for (const { path, methods, cells } of buildMatrix(loadPolicy(policies, upstreams)))
    for (const { role, credential, outcome } of cells) {
      const headers = callers[`${role}/${credential}`]
      if (!headers) continue
      const filled = path
        .replace(/^\/organizations\/:id/, `/organizations/${organizations.acme.id}`)
        .replace(':userId', String(robot.id))
        .replace(/^\/agent\/:id/, `/agent/${agents.acme}`)
        .replace(':clusterId', String(clusters.healthy))
        .replace(/:\w+/g, '999')
        .replace('*', 'x')
      // HEAD follows GET, and another method of a route is judged like the first.
      const [method = ''] = methods
      const { status } = await world.call({ method, path: filled, headers })
      const said = status === 401 || status === 403 ? status : 'passed'
      const expected = outcome === 'allowed' ? 'passed' : outcome === 'unauthenticated' ? 401 : 403
      t.equal(said, expected, `${method} ${filled} as ${role} by ${credential}: ${outcome}`)
      compared += 1
    }
  t.ok(compared > 300, `${compared} cells`)
})
