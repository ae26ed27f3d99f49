import t from 'tap'
import { diffPolicies, type PolicyDiff } from '../../../gateway/analyze/diff/diff.ts'
import { parseTable, type TableParts } from '../../support/policy-table.ts'

const compare = (old: TableParts, fresh: TableParts): PolicyDiff =>
  diffPolicies({ old: parseTable(old), new: parseTable(fresh) })

/** Every cell on a line of its own: who gains or loses what, with which credential. */
const cellsOf = ({ routes }: PolicyDiff): readonly string[] =>
  routes.flatMap(({ paths, methods, gains, losses }) =>
    [...gains.map((cell) => ({ verb: 'gains', ...cell })), ...losses.map((cell) => ({ verb: 'loses', ...cell }))].map(
      ({ verb, role, credential, relation }) =>
        [methods.join('+'), paths.join(' '), verb, role, ...(relation ? [`(${relation})`] : []), credential].join(' '),
    ),
  )

const othersOf = ({ routes }: PolicyDiff): readonly string[] =>
  routes.flatMap(({ paths, methods, other }) =>
    other.map(({ what, old, new: fresh }) => `${methods.join('+')} ${paths.join(' ')} ${what}: ${old} -> ${fresh}`),
  )

/** Cells of some people with some credentials each. */
const cells = (place: string, verb: string, people: readonly string[], credentials: readonly string[]) =>
  credentials.flatMap((credential) => people.map((who) => `${place} ${verb} ${who} ${credential}`))

const homeless = 'no organization'
const [client, member, admin, owner] = ['org-client', 'org-member', 'org-admin', 'org-owner'] as const
const operator = 'admin in org-client'
const roles = [client, member, admin, owner, operator]
const anybody = [homeless, ...roles]
const upwards = [member, admin, owner, operator]
const nobody = 'anonymous none'
const tokens = ['api-key', 'api-secret']
const both = ['oauth', ...tokens]

const reads = 'require: { role: org-member, ability: things:read }'
const writes = 'require: { role: org-admin, ability: things:write }'
const things = `/things GET ${reads}`

type Pair = Readonly<{
  name: string
  old: readonly string[] | TableParts
  new: readonly string[] | TableParts
  cells: readonly string[]
}>

const running = {
  abilities: {
    'org-client': 'agents:execute',
    'org-member': 'things:read',
    'org-admin': 'things:write',
    'org-owner': '',
  },
  scopes: {
    'api-key': 'agents:execute, things:read',
    'api-secret': 'agents:execute, things:read, things:write',
  },
}

const renamed = {
  abilities: { 'org-client': 'things:run', 'org-member': 'items:read', 'org-admin': 'things:write', 'org-owner': '' },
  scopes: { 'api-key': 'things:run, items:read', 'api-secret': 'things:run, items:read, things:write' },
}

const pairs: readonly Pair[] = [
  {
    name: 'comments, the order of rows, ids and names of parameters mean nothing',
    old: [`/things/:id GET ${reads}`, `/things POST ${writes}`],
    new: [`/things POST ${writes}`, '# why', `/things/:thing GET ${reads}`],
    cells: [],
  },
  {
    name: 'a lower role for a route',
    old: [`/things POST ${writes}`],
    new: ['/things POST require: { role: org-member, ability: things:write }'],
    // A member's role lacks the ability, so no caller gains: the role alone opens nothing.
    cells: [],
  },
  {
    name: 'a lower role for a route that asks for a role alone',
    old: ['/things POST require: { role: org-owner }'],
    new: ['/things POST require: { role: org-admin }'],
    cells: cells('POST /things', 'gains', [admin], both),
  },
  {
    name: 'a higher role for a route',
    old: [things],
    new: ['/things GET require: { role: org-admin, ability: things:read }'],
    cells: cells('GET+HEAD /things', 'loses', [member], both),
  },
  {
    name: 'another ability for a route',
    old: ['/things GET require: { role: org-admin, ability: things:read }'],
    new: ['/things GET require: { role: org-admin, ability: things:write }'],
    cells: [
      ...cells('GET+HEAD /things', 'gains', [admin, owner, operator], ['token with things:write without things:read']),
      ...cells('GET+HEAD /things', 'loses', [admin, owner, operator], ['api-key']),
    ],
  },
  {
    name: 'a new route',
    old: [things],
    new: [things, `/things POST ${writes}`],
    cells: cells('POST /things', 'gains', [admin, owner, operator], ['oauth', 'api-secret']),
  },
  {
    name: 'a removed route that no other row stands behind',
    old: [things, `/things POST ${writes}`],
    new: [things],
    cells: cells('POST /things', 'loses', [admin, owner, operator], ['oauth', 'api-secret']),
  },
  {
    name: 'a removed route that a wider row stands behind',
    old: [`/things/* GET ${reads}`, '/things/secret GET require: { role: org-owner }'],
    new: [`/things/* GET ${reads}`],
    cells: [
      ...cells('GET+HEAD /things/secret', 'gains', [member, admin], both),
      ...cells('GET+HEAD /things/secret', 'loses', [owner, operator], ['token without things:read']),
    ],
  },
  {
    name: 'a new route that takes a part of a wider one, and asks for the same',
    old: [`/things/* GET ${reads}`],
    new: [`/things/* GET ${reads}`, `/things/:id/parts GET ${reads}`],
    cells: [],
  },
  {
    name: 'a new route that takes a part of a wider one, with fewer methods',
    old: ['/things/* require: { role: org-owner }'],
    new: ['/things/* require: { role: org-owner }', '/things/:id GET require: { role: org-owner }'],
    // The path chooses first: a path that a specific pattern knows is never served by a wider one.
    cells: cells('POST+PUT+PATCH+DELETE+OPTIONS /things/:any', 'loses', [owner, operator], both),
  },
  {
    name: 'an overlap that neither row names: a literal here, a parameter there',
    old: [`/:kind/list GET ${reads}`, '/things/:id GET require: { role: org-owner }'],
    new: [`/:kind/list GET ${reads}`],
    cells: [
      ...cells('GET+HEAD /things/list', 'gains', [member, admin], both),
      ...cells('GET+HEAD /things/list', 'loses', [owner, operator], ['token without things:read']),
      ...cells('GET+HEAD /things/:id', 'loses', [owner, operator], both),
    ],
  },
  {
    name: 'GET for HEAD, and all methods written out',
    old: [`/things GET,HEAD ${reads}`, '/all require: { role: org-owner }'],
    new: [`/things GET ${reads}`, '/all GET,POST,PUT,PATCH,DELETE,OPTIONS require: { role: org-owner }'],
    cells: [],
  },
  {
    name: 'a public route',
    old: [things],
    new: ['/things GET access: public'],
    cells: [
      `GET+HEAD /things gains ${nobody}`,
      ...cells('GET+HEAD /things', 'gains', [homeless, client], both),
      ...cells('GET+HEAD /things', 'gains', anybody, ['token without things:read']),
    ],
  },
  {
    name: 'a public route no longer',
    old: ['/things GET access: public'],
    new: ['/things GET'],
    cells: [`GET+HEAD /things loses ${nobody}`],
  },
  {
    name: 'an ability that moves to a lower role',
    old: { routes: ['/things POST require: { ability: things:write }'] },
    new: {
      routes: ['/things POST require: { ability: things:write }'],
      abilities: {
        'org-client': 'things:run',
        'org-member': 'things:read, things:write',
        'org-admin': '',
        'org-owner': '',
      },
    },
    cells: cells('POST /things', 'gains', [member], ['oauth', 'api-secret']),
  },
  {
    name: 'an ability with another name, everywhere',
    old: { routes: [things] },
    new: { routes: ['/things GET require: { role: org-member, ability: items:read }'], ...renamed },
    cells: cells('GET+HEAD /things', 'loses', upwards, ['api-key minted before', 'api-secret minted before']),
  },
  {
    name: 'a scope with another ability',
    old: { routes: [`/things POST ${writes}`] },
    new: {
      routes: [`/things POST ${writes}`],
      scopes: {
        'api-key': 'things:run, things:read, things:write',
        'api-secret': 'things:run, things:read, things:write',
      },
    },
    cells: cells('POST /things', 'gains', [admin, owner, operator], ['api-key minted anew']),
  },
  {
    name: 'a new scope with its tokens',
    old: { routes: [things] },
    new: {
      routes: [things],
      scopes: {
        'api-key': 'things:run, things:read',
        'api-secret': 'things:run, things:read, things:write',
        robot: 'things:read',
      },
    },
    cells: cells('GET+HEAD /things', 'gains', upwards, ['robot minted anew']),
  },
  {
    name: 'a bypass scope that ends',
    old: { routes: [things] },
    new: { routes: [things], bypass: false },
    cells: cells('GET+HEAD /things', 'loses', [operator], both),
  },
  {
    name: 'a resource that is guarded no longer',
    old: {
      ...running,
      routes: [
        '/agent/:id POST require: { role: org-client, ability: agents:execute } resource: { kind: agent, param: id }',
      ],
    },
    new: { ...running, routes: ['/agent/:id POST require: { role: org-client, ability: agents:execute }'] },
    cells: [
      ...cells(
        'POST /agent/:id',
        'gains',
        roles.map((role) => `${role} (foreign agent)`),
        both,
      ),
      ...cells('POST /agent/:id', 'loses', [`${homeless} (public agent)`], both),
    ],
  },
  {
    name: 'an organization that is no longer taken from the path',
    old: ['/organizations/:id/x GET require: { role: org-admin } organization: { param: id }'],
    new: ['/organizations/:id/x GET require: { role: org-admin }'],
    cells: cells(
      'GET+HEAD /organizations/:id/x',
      'gains',
      [admin, owner, operator].map((role) => `${role} (foreign organization)`),
      both,
    ),
  },
  {
    name: 'an organization that stands elsewhere in the path',
    old: ['/a/:one/:two GET require: { role: org-owner } organization: { param: one }'],
    new: ['/a/:one/:two GET require: { role: org-owner } organization: { param: two }'],
    cells: [
      ...cells(
        'GET+HEAD /a/:one/:two',
        'gains',
        [owner, operator].map((role) => `${role} (foreign organization in segment 2, own organization in segment 3)`),
        both,
      ),
      ...cells(
        'GET+HEAD /a/:one/:two',
        'loses',
        [owner, operator].map((role) => `${role} (own organization in segment 2, foreign organization in segment 3)`),
        both,
      ),
    ],
  },
  {
    name: 'a host of its own, which is open at that host',
    old: ['/things GET require: { role: org-owner }'],
    new: ['/things GET require: { role: org-owner }', `/things GET host: api.example ${reads}`],
    cells: [
      ...cells('GET+HEAD api.example/things', 'gains', [member, admin], both),
      ...cells('GET+HEAD api.example/things', 'loses', [owner, operator], ['token without things:read']),
    ],
  },
  {
    name: 'a wider pattern',
    old: ['/things/:id GET require: { role: org-owner }'],
    new: ['/things/* GET require: { role: org-owner }'],
    cells: cells('GET+HEAD /things/:any/*', 'gains', [owner, operator], both),
  },
  {
    name: 'a new role between the others, and what asks for it',
    old: { routes: ['/things DELETE require: { role: org-owner }'] },
    new: {
      routes: ['/things DELETE require: { role: org-steward }'],
      abilities: {
        'org-client': 'things:run',
        'org-member': 'things:read',
        'org-admin': 'things:write',
        'org-steward': '',
        'org-owner': '',
      },
    },
    cells: cells('DELETE /things', 'gains', ['org-steward'], both),
  },
]

const asParts = (table: Pair['old']): TableParts => ('routes' in table ? table : { routes: table })

for (const { name, old, new: fresh, cells: expected } of pairs)
  t.test(`a diff names exactly the changed cells of ${name}`, async (t) => {
    const diff = compare(asParts(old), asParts(fresh))
    t.strictSame([...cellsOf(diff)].sort(), [...expected].sort())
    t.equal(
      diff.isWidened,
      expected.some((cell) => cell.includes(' gains ')),
    )
    // Backwards, each gain is a loss; the tokens that may exist are those of the older policy.
    const back = compare(asParts(fresh), asParts(old))
    if (!/another name|scope with/.test(name))
      t.strictSame(
        [...cellsOf(back)].sort(),
        expected
          .map((cell) => cell.replace(/ (?:gains|loses) /, (verb) => (verb === ' gains ' ? ' loses ' : ' gains ')))
          .sort(),
      )
  })

t.test('a diff of a policy with itself is empty', async (t) => {
  for (const { old } of pairs)
    t.strictSame(compare(asParts(old), asParts(old)), { isWidened: false, routes: [], roles: [], organizations: [] })
})

t.test('the target and treatment of requests do not count as access, and are listed apart', async (t) => {
  const old = [`/things/* GET ${reads}`, `/b GET ${reads}`]
  const diff = compare(
    { routes: old },
    {
      routes: [
        `/things/* GET ${reads} upstream: elsewhere encodedSlashes: allow limits: { bodyBytes: 5 } timeouts: { idleMs: 7 }`,
        `/things/:id/tail GET ${reads} websocket: true surface: data`,
        `/b GET ${reads}`,
      ],
    },
  )
  t.strictSame(cellsOf(diff), [])
  t.ok(diff.isWidened, 'another backend trusts the permit')
  t.strictSame([...othersOf(diff)].sort(), [
    'GET+HEAD /things/* destination: upstream u -> upstream elsewhere',
    'GET+HEAD /things/* encodedSlashes: refuse -> allow',
    'GET+HEAD /things/* limits.bodyBytes: usual -> 5',
    'GET+HEAD /things/* timeouts.idleMs: usual -> 7',
    'GET+HEAD /things/:id/tail surface: platform -> data',
    'GET+HEAD /things/:id/tail websocket: no -> joined',
  ])
})

t.test('another path at the upstream is listed, with parameters by their places', async (t) => {
  const routes = (keys: string, name = 'id'): TableParts => ({ routes: [`/things/:${name}/x GET ${reads}${keys}`] })
  t.strictSame(othersOf(compare(routes(''), routes(' stripPrefix: /things'))), [
    'GET+HEAD /things/:id/x upstreamPath: as received -> /{segment 2}/x, without /things',
  ])
  t.strictSame(othersOf(compare(routes(' rewrite: /a/:id'), routes(' rewrite: /a/:key', 'key'))), [])
  t.strictSame(othersOf(compare(routes(' rewrite: /a/:id'), routes(' rewrite: /b/:id'))), [
    'GET+HEAD /things/:id/x upstreamPath: /a/{segment 2} -> /b/{segment 2}',
  ])
})

t.test('a rate limit does not count as access, and a route that keeps its name may have another budget', async (t) => {
  const routes = [`${things} rateLimit: calm`]
  const table = (requests: number): TableParts => ({
    routes,
    rateLimits: `{ calm: { requests: ${requests}, seconds: 60 } }`,
  })
  t.strictSame(othersOf(compare(table(5), table(9))), [
    'GET+HEAD /things rateLimit: calm: 5 in 60 s by principal -> calm: 9 in 60 s by principal',
  ])
  const lifted = compare(table(5), { routes: [things] })
  t.strictSame(othersOf(lifted), ['GET+HEAD /things rateLimit: calm: 5 in 60 s by principal -> none'])
  t.notOk(lifted.isWidened)
})

t.test('an ability that no route asks for still reaches backends, and is listed', async (t) => {
  const abilities = {
    'org-client': 'things:run',
    'org-member': 'things:read',
    'org-admin': 'things:write',
    'org-owner': 'x:y',
  }
  const diff = compare({ routes: [things] }, { routes: [things], abilities })
  t.strictSame(diff, {
    isWidened: false,
    routes: [],
    organizations: [],
    roles: [
      {
        what: 'role org-owner',
        old: 'things:read things:run things:write',
        new: 'things:read things:run things:write x:y',
      },
    ],
  })
})
