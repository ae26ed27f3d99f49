import fc from 'fast-check'
import t from 'tap'
import { compilePolicy } from '../../../gateway/policy/compile.ts'
import type { RouteContent } from '../../../gateway/policy/file.ts'
import { parsePattern } from '../../../gateway/policy/route.ts'
import { readTarget } from '../../../gateway/stages/receive/target.ts'
import { compileRoutes, type RouteTable } from '../../../gateway/stages/route/table.ts'
import { backendReadings } from '../../support/backend-readings.ts'
import { imaginePolicyFile } from '../../support/policy-file.ts'

type Row = Readonly<{
  path: string
  role: string
  methods?: RouteContent['match']['methods']
  encodedSlashes?: 'allow'
}>

const slugs = ['org-client', 'org-member', 'org-admin', 'org-owner'] as const

function compileTable(rows: readonly Row[]): RouteTable {
  const organizationRoles = slugs.map((slug) => ({ slug, name: slug, abilities: [] }))
  const routes = rows.map(
    ({ path, role, methods, encodedSlashes }, index): RouteContent => ({
      id: `row.${index}`,
      match: { path, ...(methods && { methods }) },
      surface: 'platform',
      upstream: 'up',
      require: { role },
      ...(encodedSlashes && { encodedSlashes }),
    }),
  )
  const file = imaginePolicyFile('routes.yaml', { organizationRoles, routes })
  return compileRoutes(compilePolicy([file], new Set(['up'])).routes)
}

const find = (table: RouteTable, path: string, method = 'GET') => table.match(readTarget(method, path, 'h'), 'h').route

const files = compileTable([
  { path: '/files/*', role: 'org-member' },
  { path: '/files/admin', role: 'org-owner' },
  { path: '/files/admin/keys', role: 'org-owner' },
  { path: '/files/a;b', role: 'org-owner' },
  { path: '/files/secret', role: 'org-owner' },
  { path: '/files/Keys', role: 'org-owner' },
  { path: '/files/status', role: 'org-client' },
  { path: '/files/%25s', role: 'org-owner' },
])

const misreadable = { code: 'target_misreadable', status: 400 }

for (const [reading, path] of Object.entries({
  'without regard to case': '/files/ADMIN',
  'with letters beyond ASCII folded': '/files/%C5%BFecret',
  'without path parameters': '/files/admin;x=1',
  'without a trailing slash': '/files/admin/',
  'without a space at its end': '/files/admin%20',
  'without dots at its end': '/files/admin..',
  'without path parameters and then decoded': '/files/a%3Bb;v',
  'decoded, without path parameters, and decoded again': '/files/a%253Bb%3Bv',
  'without regard to case and then decoded': '/files/%4BEYS',
  'decoded twice': '/files/%2561dmin',
  'decoded three times': '/files/%252561dmin',
  'decoded and then as a target': '/files/admin%3Fx',
  'decoded and then as a target with a fragment': '/files/admin%23/x',
  'decoded twice, as a target, and without regard to case': '/files/ADMIN%253Fx/y',
  'in several of these ways at once': '/files/%2541DMIN;x/KEYS',
  'in one of these ways, but not in another': '/files/A;b',
  'not decoded, where the plain path asks for less': '/files/%73tatus',
}))
  t.test(`a path that a more guarded route knows, read ${reading}, is refused`, async (t) => {
    t.throws(() => find(files, path), misreadable, path)
  })

t.test('a path that only routes with the same guard or a lesser one know, however it is read, passes', async (t) => {
  const path = (target: string) => find(files, target).path
  t.equal(path('/files/README.md'), '/files/*')
  t.equal(path('/files/Adm%69n2'), '/files/*')
  t.equal(path('/files/x;v=1/'), '/files/*')
  t.equal(path('/files/100%25'), '/files/*')
  t.equal(path('/files/admin'), '/files/admin')
  t.equal(path('/files/admin/keys'), '/files/admin/keys')
  t.equal(path('/files/b;a'), '/files/*')
  t.equal(path('/files/C%23%20notes%3F.md'), '/files/*')
})

t.test('a path with too many readings is refused', async (t) => {
  t.equal(find(files, '/files/Annual%20Report;v=2/Draft%2520(1).PDF').path, '/files/*')
  const layered = Array.from({ length: 8 }, (_, depth) => {
    const layer = '%'.padEnd(1 + 2 * depth, '25')
    return `A${layer}3BB${layer}41${layer}20`
  })
  t.throws(() => find(files, `/files/${layered.join('/')}`), misreadable)
})

t.test('a path with a dot segment in one of its readings is refused', async (t) => {
  for (const path of ['/files/..%20/x', '/files/%20.', '/files/..%2520;v/x', '/files/x/..%3Fy', '/files/.%2523'])
    t.throws(() => find(files, path), misreadable, path)
})

t.test('a path with an empty segment in one of its readings is also read without that segment', async (t) => {
  const table = compileTable([
    { path: '/*', role: 'org-member' },
    { path: '/admin/*', role: 'org-owner' },
  ])
  for (const path of ['/.../admin/x', '/%20/admin/x', '/...;v/admin/x', '/.%2E./admin/x', '/%20/.../admin/x'])
    t.throws(() => find(table, path), misreadable, path)
  for (const path of ['/x/.../y', '/x/%20/y', '/admin/.../x']) t.ok(find(table, path), path)
  t.equal(find(files, '/files/...').path, '/files/*')
})

t.test('a method that another reading does not take is refused, though this one takes it', async (t) => {
  const table = compileTable([
    { path: '/files/*', role: 'org-member' },
    { path: '/files/admin', role: 'org-member', methods: ['GET'] },
  ])
  t.equal(find(table, '/files/ADMIN').path, '/files/*')
  t.throws(() => find(table, '/files/ADMIN', 'DELETE'), misreadable)
})

t.test('a route asks for more, or for something else, by role, ability, organization or resource', async (t) => {
  const base: RouteContent = {
    id: 'a',
    match: { path: '/:org/:id/*' },
    surface: 'platform',
    upstream: 'up',
    require: { role: 'org-member', ability: 'x:read' },
    organization: { param: 'org' },
    resource: { kind: 'agent', param: 'id' },
  }
  const { organization: _, ...withoutOrganization } = base
  const { resource: __, ...withoutResource } = base
  const { require: ___, organization: ____, resource: _____, ...open } = base
  const others: Readonly<Record<string, RouteContent>> = {
    'a higher role': { ...base, require: { role: 'org-owner', ability: 'x:read' } },
    'another ability': { ...base, require: { role: 'org-member', ability: 'x:write' } },
    'a role in the organization in force': withoutOrganization,
    'a role that no public agent replaces': withoutResource,
    'an agent of the query': { ...base, resource: { kind: 'agent', query: 'agent' } },
    'another agent': { ...base, resource: { kind: 'agent', param: 'org' } },
  }
  const lesser: Readonly<Record<string, RouteContent>> = {
    'a lower role': { ...base, require: { role: 'org-client', ability: 'x:read' } },
    'no ability': { ...base, require: { role: 'org-member' } },
    'no role': { ...base, require: { ability: 'x:read' } },
    nothing: { ...open, access: 'public' },
  }
  const organizationRoles = slugs.map((slug) => ({ slug, name: slug, abilities: ['x:read', 'x:write'] }))
  const compile = (other: RouteContent) => {
    const routes = [base, { ...other, id: 'b', match: { path: '/:org/:id/keys' } }]
    const file = imaginePolicyFile('routes.yaml', { organizationRoles, routes })
    return compileRoutes(compilePolicy([file], new Set(['up'])).routes)
  }
  t.equal(find(compile(base), '/1/2/KEYS').id, 'a', 'the same guard')
  for (const [what, other] of Object.entries(lesser)) t.equal(find(compile(other), '/1/2/KEYS').id, 'a', what)
  for (const [what, other] of Object.entries(others))
    t.throws(() => find(compile(other), '/1/2/KEYS'), misreadable, what)
})

t.test('an encoded slash passes if the route says so, and nowhere else', async (t) => {
  const table = compileTable([
    { path: '/objects/:name', role: 'org-member', encodedSlashes: 'allow' },
    { path: '/objects/:name/meta', role: 'org-member' },
    { path: '/plain/:name', role: 'org-member' },
    { path: '/mixed/:name', role: 'org-member', methods: ['GET'], encodedSlashes: 'allow' },
    { path: '/mixed/:name', role: 'org-member', methods: ['PUT'] },
    { path: '/guarded/*', role: 'org-member', encodedSlashes: 'allow' },
    { path: '/guarded/secret/:id', role: 'org-owner' },
  ])
  const match = table.match(readTarget('GET', '/objects/a%2Fb%2fc', 'h'), 'h')
  t.same([match.target.path, match.params.get('name')], ['/objects/a%2Fb%2fc', 'a/b/c'])
  t.equal(find(table, '/mixed/a%2Fb').path, '/mixed/:name')
  const malformed = { code: 'target_malformed', status: 400 }
  for (const path of ['/plain/a%2Fb', '/nothing/a%2Fb', '/objects%2Fa', '/objects/a%2Fb/meta'])
    t.throws(() => find(table, path), malformed, path)
  t.throws(() => find(table, '/mixed/a%2Fb', 'PUT'), malformed)
  t.throws(() => find(table, '/mixed/a%2Fb', 'POST'), { code: 'method_not_allowed' })
  t.throws(() => table.methodsAt(readTarget('OPTIONS', '/plain/a%2Fb', 'h'), 'h'), malformed)
  t.throws(() => find(table, '/guarded/secret%2F1'), misreadable)
  t.equal(find(table, '/guarded/other%2F1').path, '/guarded/*')
})

t.test('a dot segment behind an encoded slash is refused everywhere', async (t) => {
  const table = compileTable([{ path: '/*', role: 'org-member', encodedSlashes: 'allow' }])
  for (const name of [
    '..%2Fa',
    'a%2F..',
    'a%2F.%2Fb',
    'a%2F..;x%2Fb',
    'a%2F%2Fb',
    '%2Fa',
    'a%2F',
    'a%2F%252e%252e%2Fb',
  ])
    t.throws(() => find(table, `/x/${name}`), { code: 'target_malformed' }, name)
  for (const name of ['a%252Fb', 'a%5Cb', 'a%2F%5C', 'a%2F%00'])
    t.throws(() => find(table, `/x/${name}`), { code: 'target_malformed' }, name)
})

const kinds = { literal: 0, param: 1, rest: 2 }

/** The route of a path of plain segments, by the rule alone: the most specific pattern from the left. */
function meaning(rows: readonly Row[], path: string, method: string): Row | 'nothing' | 'another method' {
  const segments = path.slice(1).split('/')
  const matching = rows
    .map((row) => ({ row, pattern: parsePattern(row.path) }))
    .filter(({ pattern }) => {
      const isRest = pattern.at(-1)?.kind === 'rest'
      if (isRest ? segments.length < pattern.length : segments.length !== pattern.length) return false
      return pattern.every((part, index) => {
        const segment = segments[index] ?? ''
        return part.kind === 'literal' ? part.text === segment : segment !== ''
      })
    })
    .map((found) => ({ ...found, rank: found.pattern.map(({ kind }) => kinds[kind]).join('') }))
    .sort((a, b) => a.rank.localeCompare(b.rank))
  const [first] = matching
  if (!first) return 'nothing'
  const same = matching.filter(({ row }) => row.path === first.row.path)
  const taken = same.find(({ row }) => !row.methods || (row.methods as readonly string[]).includes(method))
  return taken?.row ?? 'another method'
}

const rankOf = (slug: string | undefined): number => (slugs as readonly (string | undefined)[]).indexOf(slug)

const names = ['admin', 'a;b', 'Keys', 'x', 'b', 'ſ', 'a b']
const patternSegment = fc.oneof(fc.constantFrom(...names.map(encodeURIComponent), ''), fc.constantFrom(':p', ':q'))
const pattern = fc
  .tuple(
    fc.uniqueArray(
      patternSegment.filter((part) => part !== ''),
      { minLength: 1, maxLength: 3 },
    ),
    fc.constantFrom('', '/*', '/'),
  )
  .map(([parts, end]) => `/${parts.join('/')}${end}`)
const row: fc.Arbitrary<Row> = fc
  .record({ path: pattern, role: fc.constantFrom(...slugs), takesSlashes: fc.boolean() })
  .map(({ takesSlashes, ...row }) => ({ ...row, ...(takesSlashes && { encodedSlashes: 'allow' as const }) }))

const spell = (character: string): fc.Arbitrary<string> => {
  const escaped = encodeURIComponent(character).replace(/^[^%]$/, (plain) => `%${plain.charCodeAt(0).toString(16)}`)
  return fc.oneof(
    { weight: 6, arbitrary: fc.constant(/^[\x21-\x7e]$/.test(character) ? character : escaped) },
    { weight: 1, arbitrary: fc.constant(escaped) },
    { weight: 1, arbitrary: fc.constant(escaped.replaceAll('%', '%25')) },
    { weight: 1, arbitrary: fc.constant(encodeURI(character.toUpperCase())) },
  )
}
const spelled = (name: string): fc.Arbitrary<string> => fc.tuple(...[...name].map(spell)).map((parts) => parts.join(''))
const targetSegment = fc
  .tuple(
    fc.constantFrom(...names, 's', 'keys', 'z').chain(spelled),
    fc.constantFrom(
      '',
      '',
      '',
      '',
      ';v',
      '%3Bv',
      '%20',
      '/',
      '/..',
      '/.',
      '//',
      '%2F',
      '%2f..',
      '\\',
      '%5c',
      '..;',
      '.',
      '%2E',
      ';%2561',
    ),
  )
  .map((parts) => parts.join(''))
const target = fc
  .tuple(fc.array(targetSegment, { minLength: 1, maxLength: 4 }), fc.constantFrom('', '', '/'))
  .map(([parts, end]) => `/${parts.join('/')}${end}`)

t.test('a request at a backend means what was authorized, under every reading', async (t) => {
  let passed = 0
  fc.assert(
    fc.property(
      fc.uniqueArray(row, { minLength: 1, maxLength: 6, selector: ({ path }) => path.replace(/:[a-z]/g, ':') }),
      target,
      (rows, path) => {
        const table = compileTable(rows)
        let role: string | undefined
        try {
          role = find(table, path).role?.slug
        } catch {
          return
        }
        passed += 1
        for (const { name, read } of backendReadings) {
          const meant = meaning(rows, read(path), 'GET')
          if (meant === 'nothing') continue
          if (meant === 'another method' || rankOf(meant.role) > rankOf(role))
            throw new Error(`${name}: ${JSON.stringify(meant)}`)
        }
      },
    ),
    { numRuns: 20_000 },
  )
  t.ok(passed > 1_000, `${passed} of the generated targets passed`)
})
