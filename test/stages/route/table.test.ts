import t from 'tap'
import { compilePolicy } from '../../../gateway/policy/compile.ts'
import type { RouteContent } from '../../../gateway/policy/file.ts'
import { readTarget } from '../../../gateway/stages/receive/target.ts'
import { compileRoutes, type RouteTable } from '../../../gateway/stages/route/table.ts'
import { imaginePolicyFile } from '../../support/policy-file.ts'
import { testVectors } from '../../support/vectors.ts'

type Row = Readonly<{ path: string; methods?: RouteContent['match']['methods']; host?: string; surface?: 'data' }>

const roles = imaginePolicyFile('roles.yaml', {
  organizationRoles: ['org-client', 'org-member', 'org-admin', 'org-owner'].map((slug) => ({
    slug,
    name: slug,
    abilities: [],
  })),
})

/** A policy whose routes are known by their place in the list. */
function compileTable(rows: readonly Row[]): RouteTable {
  const routes = rows.map(
    ({ path, methods, host, surface }, index): RouteContent => ({
      id: `row.${index}`,
      match: { path, ...(methods && { methods }), ...(host !== undefined && { host }) },
      surface: surface ?? 'platform',
      upstream: 'up',
    }),
  )
  const file = imaginePolicyFile('routes.yaml', { routes })
  return compileRoutes(compilePolicy([roles, file], new Set(['up'])).routes)
}

const tableOf = (...paths: string[]): RouteTable => compileTable(paths.map((path) => ({ path })))

function find(table: RouteTable, path: string, { method = 'GET', host = 'h' } = {}) {
  const { route, params, rest } = table.match(readTarget(method, path, host), host)
  return { path: route.path, params: Object.fromEntries(params), rest }
}

const found = (table: RouteTable, path: string, options = {}): string => find(table, path, options).path

const notFound = { code: 'route_not_found', status: 404 }

/** Every order that a table of files can be read in, or a sample of them. */
function ordersOf<Value>(values: readonly Value[]): (readonly Value[])[] {
  if (values.length <= 1) return [values]
  return values.flatMap((value, index) =>
    ordersOf([...values.slice(0, index), ...values.slice(index + 1)]).map((rest) => [value, ...rest]),
  )
}

/** The same shuffle on every run. */
function shuffle<Value>(values: readonly Value[], seed: number): readonly Value[] {
  let state = seed
  const keyed = values.map((value) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return { value, key: state }
  })
  return keyed.sort((a, b) => a.key - b.key).map(({ value }) => value)
}

t.test('the most specific pattern wins, in any order of the routes', async (t) => {
  const paths = ['/a/b', '/a/:id', '/a/*', '/:x/b', '/*']
  for (const order of ordersOf(paths)) {
    const table = tableOf(...order)
    t.strictSame(
      ['/a/b', '/a/c', '/a/c/d', '/z/b', '/z/c', '/z', '/a'].map((path) => found(table, path)),
      ['/a/b', '/a/:id', '/a/*', '/:x/b', '/*', '/*', '/*'],
      order.join(' '),
    )
  }
})

t.test('segments further left weigh more: a literal first, then a parameter, then the rest', async (t) => {
  const table = tableOf('/a/:y/:z', '/:x/b/c', '/a/*')
  t.equal(found(table, '/a/b/c'), '/a/:y/:z')
  t.equal(found(table, '/a/b/c/d'), '/a/*')
  t.equal(found(table, '/q/b/c'), '/:x/b/c')
})

t.test('a specific branch that leads nowhere is left again', async (t) => {
  const table = tableOf('/a/b/c', '/a/:id/d', '/:x/b/e', '/a/*', '/:x/:y/:z')
  t.equal(found(table, '/a/b/c'), '/a/b/c')
  t.equal(found(table, '/a/b/d'), '/a/:id/d')
  t.equal(found(table, '/a/b/e'), '/a/*', 'what begins with the literal stays below it while that serves it')
  const withoutRest = tableOf('/a/b/c', '/a/:id/d', '/:x/b/e', '/:x/:y/:z')
  t.equal(found(withoutRest, '/a/b/e'), '/:x/b/e')
  t.equal(found(withoutRest, '/a/b/f'), '/:x/:y/:z')
  t.throws(() => find(withoutRest, '/a/b/f/g'), notFound)
})

t.test('the parameters are those of the pattern that won, not of branches that were left', async (t) => {
  const table = tableOf('/a/:wrong/x', '/a/:right/:other')
  t.strictSame(find(table, '/a/1/2'), { path: '/a/:right/:other', params: { right: '1', other: '2' }, rest: undefined })
  t.strictSame(find(table, '/a/1/x'), { path: '/a/:wrong/x', params: { wrong: '1' }, rest: undefined })
})

t.test('patterns that share a place but not a method keep their own parameter names', async (t) => {
  const table = compileTable([
    { path: '/a/:id', methods: ['GET'] },
    { path: '/a/:name', methods: ['POST'] },
  ])
  t.strictSame(find(table, '/a/1').params, { id: '1' })
  t.strictSame(find(table, '/a/1', { method: 'POST' }).params, { name: '1' })
})

t.test('a parameter takes one segment, and never an empty one', async (t) => {
  const table = tableOf('/a/:id', '/a/:id/b')
  t.throws(() => find(table, '/a'), notFound)
  t.throws(() => find(table, '/a/'), notFound)
  t.throws(() => find(table, '/a/1/'), notFound)
  t.throws(() => find(table, '/a/1/2'), notFound)
})

t.test('* matches at least one character, and says what it stands for, byte for byte', async (t) => {
  const table = tableOf('/a/:id/*')
  t.throws(() => find(table, '/a/1'), notFound)
  t.throws(() => find(table, '/a/1/'), notFound)
  t.strictSame(find(table, '/a/1/x').rest, 'x')
  t.strictSame(find(table, '/a/1/x/').rest, 'x/')
  t.strictSame(find(table, '/a/1/x/y/z').rest, 'x/y/z')
  t.strictSame(find(table, '/a/%31/%78/%C3%A9;v=1?q=/a/b').rest, '%78/%C3%A9;v=1')
  t.strictSame(find(tableOf('/*'), '/x/y').rest, 'x/y')
})

t.test('a trailing slash is another path', async (t) => {
  const table = tableOf('/a', '/b/')
  t.equal(found(table, '/a'), '/a')
  t.throws(() => find(table, '/a/'), notFound)
  t.equal(found(table, '/b/'), '/b/')
  t.throws(() => find(table, '/b'), notFound)
})

t.test('literals match decoded, in their own case, and whole', async (t) => {
  const table = tableOf('/users/me', '/caf%C3%A9', '/%2Astar', '/a:b')
  t.equal(found(table, '/%75sers/m%65'), '/users/me')
  t.equal(found(table, '/caf%c3%a9'), '/caf%C3%A9')
  t.equal(found(table, '/*star'), '/%2Astar')
  t.equal(found(table, '/a%3Ab'), '/a:b')
  for (const path of ['/Users/me', '/users/ME', '/users/me2', '/user/me', '/users', '/users/me;v=1', '/users/me%20'])
    t.throws(() => find(table, path), notFound, path)
})

t.test('parameters are decoded once', async (t) => {
  const table = tableOf('/a/:id')
  t.strictSame(find(table, '/a/%C3%A9').params, { id: 'é' })
  t.strictSame(find(table, '/a/100%2525').params, { id: '100%25' })
  t.strictSame(find(table, '/a/a+b').params, { id: 'a+b' })
})

t.test('a path named like a member of every object is an ordinary path', async (t) => {
  const table = tableOf('/a/b', '/x/:id')
  for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty'])
    t.throws(() => find(table, `/${name}`), notFound, name)
  t.strictSame(find(table, '/x/__proto__').params.id, '__proto__')
})

t.test('a path that a specific pattern knows is never served by a wider one', async (t) => {
  const table = compileTable([
    { path: '/a/:id', methods: ['GET'] },
    { path: '/a/*', methods: ['POST', 'DELETE'] },
  ])
  t.throws(() => find(table, '/a/1', { method: 'POST' }), {
    code: 'method_not_allowed',
    status: 405,
    details: { allow: ['GET', 'HEAD'] },
  })
  t.equal(found(table, '/a/1/2', { method: 'POST' }), '/a/*')
})

t.test('another method of a known path is 405 and says which are known, in the surface of that path', async (t) => {
  const table = compileTable([
    { path: '/a', methods: ['GET'], surface: 'data' },
    { path: '/a', methods: ['PUT', 'PATCH'], surface: 'data' },
  ])
  for (const method of ['POST', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT', 'PROPFIND', 'get'])
    t.throws(
      () => find(table, '/a', { method }),
      { code: 'method_not_allowed', surface: 'data', details: { allow: ['GET', 'HEAD', 'PUT', 'PATCH'] } },
      method,
    )
})

t.test('a method that the gateway does not take is 405 on any path', async (t) => {
  t.throws(() => find(tableOf('/a'), '/nothing', { method: 'TRACE' }), { code: 'method_not_allowed', status: 405 })
  t.throws(() => find(tableOf('/a'), '/a', { method: 'TRACE' }), { code: 'method_not_allowed', status: 405 })
})

t.test('HEAD follows GET, and nothing else', async (t) => {
  const table = compileTable([
    { path: '/read', methods: ['GET'] },
    { path: '/write', methods: ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] },
  ])
  t.equal(found(table, '/read', { method: 'HEAD' }), '/read')
  t.throws(() => find(table, '/write', { method: 'HEAD' }), { code: 'method_not_allowed' })
})

t.test('a route for a host serves that host alone, whatever its case, port or root dot', async (t) => {
  const table = compileTable([{ path: '/a', host: 'api.example.com' }, { path: '/*' }])
  for (const host of ['api.example.com', 'API.Example.COM', 'api.example.com:8080', 'api.example.com.'])
    t.equal(found(table, '/a', { host }), '/a', host)
  for (const host of ['example.com', 'x.api.example.com', 'api.example.com.evil', 'h'])
    t.equal(found(table, '/a', { host }), '/*', host)
})

t.test('an empty table knows no path', async (t) => {
  t.throws(() => find(compileTable([]), '/'), notFound)
})

type VectorCase = Readonly<{ path: string; match: string | null; params: Readonly<Record<string, string>> }>
type RouteVectors = Readonly<{ patterns: readonly string[]; cases: readonly VectorCase[] }>

/** heimdall writes `*name` and `**` for the rest, and escapes literal stars and colons. */
function translate(pattern: string): string {
  const segments = pattern.split('/').map((segment) => {
    if (segment === '**' || /^\*[a-z]+$/.test(segment)) return '*'
    return segment.replace(/^\\\*/, '%2A').replace(/^\\:/, '%3A')
  })
  return segments.join('/')
}

testVectors(t, 'proxy/route-match.json', 'the same route wins as in another gateway, in any order', (t, vectors) => {
  const { patterns, cases } = vectors as RouteVectors
  // A backslash inside a segment is refused at load here, and in a request before the routes are searched.
  const rows = patterns.map((pattern) => ({ path: translate(pattern) })).filter(({ path }) => !path.includes('\\'))
  const tables = [rows, [...rows].reverse(), ...[1, 2, 3, 4, 5].map((seed) => shuffle(rows, seed))].map(compileTable)
  let compared = 0
  for (const { path, match, params } of cases) {
    // Their paths come parsed; a client escapes a character beyond ASCII.
    const wire = path.replace(/[^\x21-\x7e]+/gu, encodeURIComponent)
    for (const table of tables) {
      const isRefusedEarlier = path.includes('//') || /%2f/i.test(path) || path.includes('\\')
      if (isRefusedEarlier) t.throws(() => find(table, wire), { code: 'target_malformed' }, path)
      else if (match === null) t.throws(() => find(table, wire), notFound, path)
      else {
        const { path: pattern, params: ours, rest } = find(table, wire)
        t.equal(pattern, translate(match), path)
        t.strictSame(
          Object.values({ ...ours, ...(rest === undefined || match.endsWith('**') ? {} : { rest }) }).sort(),
          Object.values(params).sort(),
          path,
        )
      }
    }
    compared += 1
  }
  t.equal(compared, 46)
})
