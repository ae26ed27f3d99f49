import t from 'tap'
import type { Answer } from '../support/client.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { users, serviceAccounts, organizations, agents, clusters } = world

/** All callers, by the names that the table below uses. */
const callers = {
  owner: oauth(users.owner),
  admin: oauth(users.admin),
  member: oauth(users.member),
  client: oauth(users.client),
  outsider: oauth(users.outsider),
  platformAdmin: oauth(users.platformAdmin),
  homeless: oauth(users.homeless),
  robotKey: bearer(serviceAccounts.robot.apiKey),
  robotSecret: bearer(serviceAccounts.robot.apiSecret),
  robotAdminKey: bearer(serviceAccounts.robotAdmin.apiKey),
  robotAdminSecret: bearer(serviceAccounts.robotAdmin.apiSecret),
  ownerInGlobex: { ...oauth(users.owner), 'x-organization-id': String(organizations.globex.id) },
  memberInGlobex: { ...oauth(users.member), 'x-organization-id': String(organizations.globex.id) },
  expired: bearer(serviceAccounts.robot.expired),
  revoked: bearer(serviceAccounts.robot.revoked),
  nobody: {},
} satisfies Record<string, Record<string, string>>

type Caller = keyof typeof callers

const everybody = Object.keys(callers) as Caller[]

/** Callers with an invalid credential or organization: 401 on every route that needs one. */
const strangers: readonly Caller[] = ['memberInGlobex', 'expired', 'revoked', 'nobody']

const authenticated = everybody.filter((caller) => !strangers.includes(caller))
const withOrganization = authenticated.filter((caller) => caller !== 'homeless')

/** Callers in globex, who do not own acme's resources. The others are in acme. */
const inGlobex: readonly Caller[] = ['outsider', 'ownerInGlobex']

/** Callers who pass role and ability, by the specification's roles and scopes: written out, not computed. */
const passes = {
  authenticated,
  'org-client *:execute': withOrganization,
  'org-member *:read': withOrganization.filter((caller) => caller !== 'client'),
  'org-member files:write': [
    'owner',
    'admin',
    'member',
    'outsider',
    'platformAdmin',
    'robotSecret',
    'robotAdminSecret',
    'ownerInGlobex',
  ],
  'org-admin *:write': ['owner', 'admin', 'outsider', 'platformAdmin', 'robotAdminSecret'],
  'org-owner': ['owner', 'outsider', 'platformAdmin'],
} satisfies Record<string, readonly Caller[]>

/** Callers with the role alone, who lack the ability. */
const holds: Readonly<Record<string, readonly Caller[]>> = {
  'org-client': withOrganization,
  'org-member': withOrganization.filter((caller) => caller !== 'client'),
  'org-admin': ['owner', 'admin', 'outsider', 'platformAdmin', 'robotAdminKey', 'robotAdminSecret'],
  'org-owner': ['owner', 'outsider', 'platformAdmin'],
}

type Requirement = keyof typeof passes | 'public'

/** A status for the demo backends that the gateway itself never sends. */
const fromBackend = 218

/** The outcome for callers who pass role and ability: a backend's name, or the gateway's own status. */
type Outcome = string | number

type Line = Readonly<{
  method: string
  path: string
  require: Requirement
  outcome: Outcome
  /** For callers in globex, if it differs. */
  outcomeInGlobex?: Outcome
}>

const line = (
  method: string,
  path: string,
  require: Requirement,
  outcome: Outcome,
  outcomeInGlobex?: Outcome,
): Line => ({
  method,
  path,
  require,
  outcome,
  ...(outcomeInGlobex !== undefined && { outcomeInGlobex }),
})

const each = (methods: readonly string[], make: (method: string) => Line): readonly Line[] => methods.map(make)

const reads = ['GET', 'HEAD']
const writes = ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
const all = [...reads, ...writes]

const read = (path: string, outcome: Outcome, inOther?: Outcome): readonly Line[] =>
  each(reads, (method) => line(method, path, 'org-member *:read', outcome, inOther))
const write = (methods: readonly string[], path: string, outcome: Outcome, inOther?: Outcome): readonly Line[] =>
  each(methods, (method) => line(method, path, 'org-admin *:write', outcome, inOther))
const run = (path: string, outcome: Outcome, inOther?: Outcome): Line =>
  line('POST', path, 'org-client *:execute', outcome, inOther)

const proxy = (cluster: number, path = 'entries'): string => `/clusters/${cluster}/proxy/${path}`

const cluster = (id: number, outcome: Outcome, inOther: Outcome): readonly Line[] => [
  ...read(proxy(id), outcome, inOther),
  ...write(writes, proxy(id), outcome, inOther),
]

/** SPEC section 9, line by line. */
const table: Readonly<Record<string, readonly Line[]>> = {
  '/status': each(reads, (method) => line(method, '/status', 'public', 'platform')),
  '/public/*': each(all, (method) => line(method, '/public/a/b', 'authenticated', 'platform')),
  '/admin/*': each(all, (method) => line(method, '/admin/a/b', 'org-owner', 'platform')),
  '/datasets': [...read('/datasets', 'platform'), ...write(['POST'], '/datasets', 'platform')],
  '/datasets/:id': [
    ...read('/datasets/1', 'platform'),
    ...write(['PUT', 'PATCH', 'DELETE'], '/datasets/1', 'platform'),
  ],
  '/datasets/:id/entries': [
    ...read('/datasets/1/entries', 'platform'),
    ...write(['POST'], '/datasets/1/entries', 'platform'),
  ],
  '/workflows': [...read('/workflows', 'platform'), ...write(['POST'], '/workflows', 'platform')],
  '/workflows/:id': read('/workflows/1', 'platform'),
  '/workflows/:id/run': [run('/workflows/1/run', 'platform')],
  '/clusters': read('/clusters', 'platform'),
  '/clusters/:clusterId/proxy/* of a healthy cluster': cluster(clusters.healthy, 'cluster-healthy', 404),
  '/clusters/:clusterId/proxy/* of a suspended cluster': cluster(clusters.suspended, 403, 404),
  '/clusters/:clusterId/proxy/* of a stale cluster': cluster(clusters.stale, 503, 404),
  '/clusters/:clusterId/proxy/* of a cluster being deleted': cluster(clusters.deleting, 503, 404),
  '/clusters/:clusterId/proxy/* of an unreachable cluster': cluster(clusters.unreachable, 503, 404),
  '/clusters/:clusterId/proxy/* of a cluster of globex': cluster(clusters.globex, 404, 'cluster-globex'),
  '/clusters/:clusterId/proxy/* of an unknown cluster': cluster(999_999, 404, 404),
  '/data/*': [...read('/data/entries', 'data'), ...write(writes, '/data/entries', 'data')],
  '/agent/:id/responses of an agent of acme': [run(`/agent/${agents.acme}/responses`, 'agent', 404)],
  '/agent/:id/responses of an agent of globex': [run(`/agent/${agents.globex}/responses`, 404, 'agent')],
  '/agent/:id/responses of a public agent': [
    line('POST', `/agent/${agents.public}/responses`, 'authenticated', 'agent'),
  ],
  '/agent/:id/responses of an unknown agent': [run('/agent/999999/responses', 404), run('/agent/x/responses', 404)],
  '/agent/:id/chat/completions of an agent of acme': [run(`/agent/${agents.acme}/chat/completions`, 'agent', 404)],
  '/agent/:id/chat/completions of an agent of globex': [run(`/agent/${agents.globex}/chat/completions`, 404, 'agent')],
  '/agent/:id/chat/completions of a public agent': [
    line('POST', `/agent/${agents.public}/chat/completions`, 'authenticated', 'agent'),
  ],
  '/v1/files': [...read('/v1/files', 'files'), line('POST', '/v1/files', 'org-member files:write', 'files')],
  '/v1/files/:id': [...read('/v1/files/1', 'files'), line('DELETE', '/v1/files/1', 'org-member files:write', 'files')],
  '/v1/files/:id/content': read('/v1/files/1/content', 'files'),
  '/graphql': [line('POST', '/graphql', 'org-member *:read', 'graphql')],
  '/socket': read('/socket', 'platform'),
  '/users/me': each(reads, (method) => line(method, '/users/me', 'authenticated', 200)),
  '/users/me/abilities': each(reads, (method) => line(method, '/users/me/abilities', 'authenticated', 200)),
}

/** Methods that a path does not take: refused for all callers, before any credential is read. */
const otherMethods: readonly (readonly [path: string, methods: readonly string[], allow: string])[] = [
  ['/status', writes, 'GET, HEAD'],
  ['/datasets', ['PUT', 'PATCH', 'DELETE', 'OPTIONS'], 'GET, HEAD, POST'],
  ['/datasets/1', ['POST', 'OPTIONS'], 'GET, HEAD, PUT, PATCH, DELETE'],
  ['/datasets/1/entries', ['PUT', 'PATCH', 'DELETE', 'OPTIONS'], 'GET, HEAD, POST'],
  ['/workflows', ['PUT', 'PATCH', 'DELETE', 'OPTIONS'], 'GET, HEAD, POST'],
  ['/workflows/1', writes, 'GET, HEAD'],
  ['/workflows/1/run', [...reads, 'PUT', 'PATCH', 'DELETE', 'OPTIONS'], 'POST'],
  ['/clusters', writes, 'GET, HEAD'],
  [`/agent/${agents.acme}/responses`, [...reads, 'PUT', 'PATCH', 'DELETE', 'OPTIONS'], 'POST'],
  [`/agent/${agents.acme}/chat/completions`, [...reads, 'PUT', 'PATCH', 'DELETE', 'OPTIONS'], 'POST'],
  ['/v1/files', ['PUT', 'PATCH', 'DELETE', 'OPTIONS'], 'GET, HEAD, POST'],
  ['/v1/files/1', ['POST', 'PUT', 'PATCH', 'OPTIONS'], 'GET, HEAD, DELETE'],
  ['/v1/files/1/content', writes, 'GET, HEAD'],
  ['/graphql', [...reads, 'PUT', 'PATCH', 'DELETE', 'OPTIONS'], 'POST'],
  ['/socket', writes, 'GET, HEAD'],
  ['/users/me', writes, 'GET, HEAD'],
  ['/users/me/abilities', writes, 'GET, HEAD'],
  [`/organizations/${organizations.acme.id}/switch`, [...reads, 'PUT', 'PATCH', 'DELETE', 'OPTIONS'], 'POST'],
]

const unknownPaths = [
  '/',
  '/nothing',
  '/public',
  '/public/',
  '/admin',
  '/admin/',
  '/data',
  '/data/',
  '/datasets/',
  '/datasets/1/',
  '/datasets/1/entries/1',
  '/Datasets',
  '/users',
  '/users/1',
  `/clusters/${clusters.healthy}`,
  `/clusters/${clusters.healthy}/proxy`,
  `/clusters/${clusters.healthy}/proxy/`,
  '/agent/1',
  '/graphql/',
  '/v1',
  '/v1/files/',
  '/metrics',
  '/healthz',
  '/readyz',
  '/.well-known/jwks.json',
]

type Case = Readonly<{
  method: string
  path: string
  caller: Caller
  status: number
  backend?: string | undefined
  check?: string
}>

/** Computed from the lists above alone, independent of the product. */
function expectation({ method, path, require, outcome, outcomeInGlobex }: Line, caller: Caller): Case {
  const of = (status: number, more: Pick<Case, 'backend' | 'check'> = {}): Case => ({
    method,
    path,
    caller,
    status,
    ...more,
  })
  const forbid = (check: string): Case => of(403, method === 'HEAD' || path.startsWith('/data/') ? {} : { check })
  if (require !== 'public') {
    if (strangers.includes(caller)) return of(401)
    const [role = ''] = require.split(' ')
    if (!(passes[require] as readonly Caller[]).includes(caller))
      return forbid(holds[role]?.includes(caller) ? 'ability' : 'role')
  }
  const mine = inGlobex.includes(caller) ? (outcomeInGlobex ?? outcome) : outcome
  if (mine === 403) return forbid('resource')
  return typeof mine === 'number' ? of(mine) : of(fromBackend, { backend: mine })
}

function readCheck({ status, text }: Answer): string | undefined {
  if (status !== 403 || text === '') return undefined
  const { error, errors } = JSON.parse(text)
  return error?.check ?? errors?.[0]?.extensions?.check
}

const inFlight = 16
const answerOfBackend = JSON.stringify({ status: fromBackend, body: 'from the backend' })

/** Runs all cases, and names each whose status or arrival at the backends is unexpected. */
async function judge(cases: readonly Case[]): Promise<readonly string[]> {
  await world.clearRecorder()
  const results: string[] = []
  const next = cases.entries()
  const work = async (): Promise<void> => {
    for (const [index, { method, path, caller }] of next) {
      // The query tells the recorder's requests apart.
      const headers = { ...callers[caller], 'x-demo-answer': answerOfBackend }
      const answer = await world.call({ method, path: `${path}?case=${index}`, headers })
      results[index] = [answer.status, readCheck(answer)].join(' ').trim()
    }
  }
  await Promise.all(Array.from({ length: inFlight }, work))
  const recorded = await world.recorded()
  return cases.flatMap(({ method, path, caller, status, check, backend }, index) => {
    const arrived = recorded
      .filter(({ requestLine }) => requestLine.split(' ')[1]?.endsWith(`?case=${index}`))
      .map((request) => request.backend)
    const expected = [status, check, backend].filter((part) => part !== undefined).join(' ')
    const actual = [results[index], ...arrived].join(' ')
    return actual === expected ? [] : [`${method} ${path} by ${caller}: expected ${expected}, got ${actual}`]
  })
}

for (const [name, lines] of Object.entries(table))
  t.test(`${name} takes only the callers that its requirement names`, async (t) => {
    const cases = lines.flatMap((line) => everybody.map((caller) => expectation(line, caller)))
    t.strictSame(await judge(cases), [])
    t.comment(`${cases.length} cases`)
  })

const sample: readonly Caller[] = ['owner', 'client', 'homeless', 'robotKey', 'expired', 'nobody']

t.test('another method of a known path is 405 for every caller and reaches no backend', async (t) => {
  const cases = otherMethods.flatMap(([path, methods]) =>
    methods.flatMap((method) => sample.map((caller) => ({ method, path, caller, status: 405 }))),
  )
  t.strictSame(await judge(cases), [])
  t.comment(`${cases.length} cases`)
})

t.test('a 405 lists exactly the methods that the path takes', async (t) => {
  for (const [path, [method = ''], allow] of otherMethods)
    t.equal((await world.call({ method, path })).headers.allow, allow, path)
})

t.test('a path outside the policy is 404 for every caller and reaches no backend', async (t) => {
  const cases = unknownPaths.flatMap((path) =>
    ['GET', 'POST'].flatMap((method) => sample.map((caller) => ({ method, path, caller, status: 404 }))),
  )
  t.strictSame(await judge(cases), [])
  t.comment(`${cases.length} cases`)
})

t.test('a method that the gateway does not take is 405 on every path', async (t) => {
  const cases = ['/public/x', '/status', '/nothing'].map(
    (path): Case => ({ method: 'TRACE', path, caller: 'owner', status: 405 }),
  )
  t.strictSame(await judge(cases), [])
})
