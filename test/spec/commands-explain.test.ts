import t from 'tap'
import { runCommand } from '../support/command-line.ts'
import { writeConfiguration } from '../support/gateway.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { users, serviceAccounts, organizations, agents } = world
const { robot } = serviceAccounts
const { acme, globex } = organizations

const configurationFile = writeConfiguration(t, { world })

const explain = (...words: readonly (string | number)[]) =>
  runCommand(['policy', 'explain', ...words.map(String), '--config', configurationFile])

/** The stored token that a raw token names: `oat_`, the number in base64url, a dot, the secret. */
const numberOf = (token: string): string => Buffer.from(token.slice(4).split('.')[0] ?? '', 'base64url').toString()

type Asked = Readonly<{
  what: string
  method?: string
  path: string
  who: readonly (string | number)[]
  headers: Record<string, string>
  status: number
}>

const asUser = (user: Readonly<{ id: number }>, organization?: number) => [
  '--user',
  user.id,
  ...(organization === undefined ? [] : ['--organization', organization]),
]

const asked: readonly Asked[] = [
  { what: 'a member', path: '/datasets', who: asUser(users.member), headers: oauth(users.member), status: 200 },
  { what: 'a client', path: '/datasets', who: asUser(users.client), headers: oauth(users.client), status: 403 },
  {
    what: 'a member in an organization of others',
    path: '/datasets',
    who: asUser(users.member, globex.id),
    headers: { ...oauth(users.member), 'x-organization-id': String(globex.id) },
    status: 401,
  },
  {
    what: 'one without any',
    path: '/datasets',
    who: asUser(users.homeless),
    headers: oauth(users.homeless),
    status: 403,
  },
  {
    what: 'a role in the platform alone',
    path: `/organizations/${acme.id}/members`,
    who: asUser(users.platformAdmin),
    headers: oauth(users.platformAdmin),
    status: 404,
  },
  {
    what: 'an agent of others',
    method: 'POST',
    path: `/agents/${agents.globex}/responses`,
    who: asUser(users.member),
    headers: oauth(users.member),
    status: 404,
  },
  {
    what: 'a token without the ability',
    method: 'POST',
    path: '/datasets',
    who: [...asUser(robot), '--token', numberOf(robot.apiKey)],
    headers: bearer(robot.apiKey),
    status: 403,
  },
  {
    what: 'a token with the ability',
    path: '/datasets',
    who: [...asUser(robot), '--token', numberOf(robot.apiKey)],
    headers: bearer(robot.apiKey),
    status: 200,
  },
]

for (const { what, method = 'GET', path, who, headers, status } of asked)
  t.test(`explain --user says of ${what} what the running gateway answers`, async (t) => {
    const answered = await world.call({ method, path, headers })
    t.equal(answered.status, status)
    const { code, stdout, stderr } = await explain(method, path, ...who, '--json')
    t.match([code, stderr], [status === 200 ? 0 : 1, ''])
    const explained = JSON.parse(stdout)
    t.equal(explained.status, status)
    if (status !== 200) t.equal(explained.outcome, JSON.parse(answered.text).error.code)
  })

t.test('explain --user tells what it cannot find, and what does not go together', async (t) => {
  t.match(await explain('GET', '/datasets', '--user', 4_711), {
    code: 1,
    stderr: /user 4711 does not exist\. Name another/,
  })
  const stranger = [...asUser(users.member), '--token', numberOf(robot.apiKey)]
  t.match(await explain('GET', '/datasets', ...stranger), { code: 1, stderr: /has no token \d+\. Name another/ })
  const expired = [...asUser(robot), '--token', numberOf(robot.expired)]
  t.match(await explain('GET', '/datasets', ...expired), { code: 1, stderr: /has expired\. Name another/ })
  t.match(await explain('GET', '/datasets', '--organization', acme.id), { code: 2, stderr: /need --user/ })
  const foreign = ['GET', '/datasets', ...asUser(users.member), '--org', globex.id]
  t.match(await explain(...foreign), { code: 1, stdout: /refused: 401/ }, 'another name of --organization')
  for (const more of [['--anonymous'], ['--role', 'org-owner'], ['--scope', 'api-key'], ['--ability', 'data:read']])
    t.match(await explain('GET', '/datasets', ...asUser(users.member), ...more), {
      code: 2,
      stderr: /--user and --\w+ exclude each other/,
    })
})
