import fc from 'fast-check'
import t from 'tap'
import { compilePolicy, type Policy } from '../../gateway/policy/compile.ts'
import type { RouteContent } from '../../gateway/policy/file.ts'
import type { KnownUpstreams } from '../../gateway/policy/known-upstreams.ts'
import { rewritePath } from '../../gateway/policy/path-rewrite.ts'
import { readTarget } from '../../gateway/stages/receive/target.ts'
import { compileRoutes } from '../../gateway/stages/route/table.ts'
import { segments } from '../fuzz/vocabulary.ts'
import { backendReadings } from '../support/backend-readings.ts'
import { imaginePolicyFile } from '../support/policy-file.ts'

const abilities: Readonly<Record<string, readonly string[]>> = {
  'org-member': ['things:read'],
  'org-admin': ['things:write'],
}
const organizationRoles = ['org-client', 'org-member', 'org-admin', 'org-owner'].map((slug) => ({
  slug,
  name: slug,
  abilities: abilities[slug] ?? [],
}))

type Row = Partial<RouteContent> & Readonly<{ path: string; host?: string; methods?: RouteContent['match']['methods'] }>

const names: KnownUpstreams = new Set(['up', 'other'])

function compile(rows: readonly Row[], upstreams = names): Policy {
  const routes = rows.map(({ path, host, methods, ...keys }, index): RouteContent => {
    const match = { path, ...(host !== undefined && { host }), ...(methods && { methods }) }
    const destination = keys.cluster || keys.answer ? {} : { upstream: 'up' }
    return { id: `r${index}`, match, surface: 'platform', ...destination, ...keys }
  })
  return compilePolicy([imaginePolicyFile('p.yaml', { organizationRoles, routes })], upstreams)
}

/** The upstream's path, without a query. */
function forwarded(row: Row, path: string, upstreams = names): string {
  const { routes } = compile([row], upstreams)
  const { route, target } = compileRoutes(routes).match(readTarget('GET', path, 'h'), 'h')
  return route.rewrite ? rewritePath(route.rewrite, target.path) : target.path
}

const based: KnownUpstreams = new Map([['up', { origins: ['http://up:80'], basePath: '/base/v1' }]])

const owner = { require: { role: 'org-owner' } }

t.test('the upstream gets whole segments as they were received', async (t) => {
  const strip = { path: '/api/*', stripPrefix: '/api' }
  t.equal(forwarded(strip, '/api/datasets/5'), '/datasets/5')
  t.equal(forwarded(strip, '/api/caf%C3%A9/%41/a;b/x/'), '/caf%C3%A9/%41/a;b/x/')
  t.equal(forwarded(strip, '/%61pi/x'), '/x', 'the prefix is compared as a route is')
  t.equal(forwarded({ path: '/api', stripPrefix: '/api' }, '/api'), '/', 'never empty')
  t.equal(forwarded({ path: '/api/', stripPrefix: '/api' }, '/api/'), '/')
  t.equal(forwarded({ path: '/a/b/:id', stripPrefix: '/a/b' }, '/a/b/c'), '/c')
  const rewrite = { path: '/orgs/:org/sets/:id/*', rewrite: '/v2/:id/of/:org/*' }
  t.equal(forwarded(rewrite, '/orgs/7/sets/a%20b/c/d%25/e'), '/v2/a%20b/of/7/c/d%25/e')
  t.equal(forwarded({ path: '/app/*', rewrite: '/index.html' }, '/app/any/thing'), '/index.html')
  t.equal(forwarded({ path: '/app', rewrite: '/' }, '/app'), '/')
})

t.test('an escaped slash stays one', async (t) => {
  const slashes = { encodedSlashes: 'allow' } as const
  t.equal(forwarded({ path: '/a/:id', rewrite: '/b/:id/c', ...slashes }, '/a/x%2Fy'), '/b/x%2Fy/c')
  t.equal(forwarded({ path: '/a/*', stripPrefix: '/a', ...slashes }, '/a/x%2fy/z'), '/x%2fy/z')
  for (const path of ['/a/%2Fx', '/a/%2F%2Fx', '/a/x%2F', '/a/..%2Fx'])
    t.throws(() => forwarded({ path: '/a/*', stripPrefix: '/a', ...slashes }, path), { code: 'target_malformed' }, path)
})

t.test('a base path precedes every path', async (t) => {
  t.equal(forwarded({ path: '/x/*' }, '/x/y/', based), '/base/v1/x/y/')
  t.equal(forwarded({ path: '/x', stripPrefix: '/x' }, '/x', based), '/base/v1/')
  t.equal(forwarded({ path: '/x/:id', rewrite: '/:id' }, '/x/%7E', based), '/base/v1/%7E')
})

t.test('a path that cannot be rewritten soundly is a mistake', async (t) => {
  const mistakes: readonly (readonly [row: Row, message: RegExp])[] = [
    [{ path: '/a/:id', rewrite: '/b/:other' }, /":other" is not in the path of the route/],
    [{ path: '/a/:id', rewrite: '/b/pre:id' }, /"pre:id" has a parameter behind other text/],
    [{ path: '/a/:id', rewrite: '/b/:id/pre:id' }, /"pre:id" has a parameter behind other text/],
    [{ path: '/a/:id', rewrite: '/b/*' }, /"\*" is not in the path of the route/],
    [{ path: '/a', rewrite: '//evil.example/x' }, /no empty segment/],
    [{ path: '/a', rewrite: 'http://evil.example/x' }, /a path starts with \//],
    [{ path: '/a', rewrite: '/b/../c' }, /no dot segment/],
    [{ path: '/a', rewrite: '/b/%2e%2e/c' }, /no dot segment/],
    [{ path: '/a', rewrite: '/b/..;x/c' }, /has a sign that servers read in several ways/],
    [{ path: '/a', rewrite: '/b/.../c' }, /has a sign that servers read in several ways/],
    [{ path: '/a', rewrite: '/b/%2f' }, /no encoded slash/],
    [{ path: '/a', rewrite: '/b/%41' }, /has a sign that servers read in several ways/],
    [{ path: '/a', rewrite: '/b/é' }, /has a sign that servers read in several ways/],
    [{ path: '/a', rewrite: '/b?c' }, /no \?, # or backslash/],
    [{ path: '/a/b', stripPrefix: '/b' }, /must be the first segments/],
    [{ path: '/api/x', stripPrefix: '/ap' }, /must be the first segments/],
    [{ path: '/api/x', stripPrefix: '/api/' }, /must be the first segments/],
    [{ path: '/:id/x', stripPrefix: '/:id' }, /must be the first segments/],
    [{ path: '/x', stripPrefix: '/x', rewrite: '/y' }, /beside stripPrefix/],
    [{ path: '/c/:id/*', cluster: { param: 'id' }, stripPrefix: '/c' }, /only a route with "upstream"/],
    [{ path: '/u', answer: 'users.me', rewrite: '/x' }, /only a route with "upstream"/],
  ]
  for (const [row, message] of mistakes) t.throws(() => compile([row]), { message }, JSON.stringify(row))
})

t.test('two paths of clients never reach one upstream path under different requirements', async (t) => {
  const colliding: readonly (readonly Row[])[] = [
    [
      { path: '/admin/*', ...owner },
      { path: '/public/*', stripPrefix: '/public' },
    ],
    [
      { path: '/b/admin', ...owner },
      { path: '/c', rewrite: '/b/admin' },
    ],
    [
      { path: '/b/admin', ...owner },
      { path: '/c', rewrite: '/b/Admin' },
    ],
    [
      { path: '/b/admin', ...owner },
      { path: '/c', rewrite: '/b/admin/' },
    ],
    [
      { path: '/b/%41dmin', ...owner },
      { path: '/c', rewrite: '/b/admin' },
    ],
    [
      { path: '/b/admin;v=1', ...owner },
      { path: '/c', rewrite: '/b/admin' },
    ],
    [
      { path: '/b/admin.', ...owner },
      { path: '/c', rewrite: '/b/admin' },
    ],
    [
      { path: '/b/%EF%BD%81dmin', ...owner },
      { path: '/c', rewrite: '/b/admin' },
    ],
    [
      { path: '/b/:id', ...owner },
      { path: '/c/:key', rewrite: '/b/:key' },
    ],
    [
      { path: '/b/:id/x', ...owner },
      { path: '/c/*', rewrite: '/b/*' },
    ],
    [
      { path: '/b/*', ...owner },
      { path: '/c/:key', rewrite: '/b/x/:key' },
    ],
    // A shorter path of the same clients is another route's.
    [{ path: '/files/:id' }, { path: '/files/*', rewrite: '/store/*' }, { path: '/store/*', ...owner }],
    [
      { path: '/files/admin/:id', upstream: 'other' },
      { path: '/files/:kind/*', rewrite: '/store/:kind/*' },
      { path: '/store/:kind/:id', ...owner },
    ],
    [
      { path: '/app/:page', upstream: 'other' },
      { path: '/app/*', rewrite: '/index', ...owner },
      { path: '/c', rewrite: '/index' },
    ],
    [
      { path: '/x/:org/y', rewrite: '/y', ...owner },
      { path: '/z', rewrite: '/y' },
    ],
    [
      { path: '/b', access: 'public' },
      { path: '/c', rewrite: '/b' },
    ],
    [
      { path: '/b', require: { ability: 'things:read' } },
      { path: '/c', rewrite: '/b', require: { ability: 'things:write' } },
    ],
    [
      { path: '/b', host: 'a.example', ...owner },
      { path: '/c', host: 'b.example', rewrite: '/b' },
    ],
    [
      { path: '/o/:a/:b', organization: { param: 'a' }, rewrite: '/x/:a/:b' },
      { path: '/p/:b/:a', organization: { param: 'a' }, rewrite: '/x/:b/:a' },
    ],
    [
      { path: '/k/:id/all/*', cluster: { param: 'id' }, ...owner },
      { path: '/k/:id/some/*', cluster: { param: 'id' } },
    ],
  ]
  for (const rows of colliding)
    t.throws(() => compile(rows), { message: /reaches the upstream as/ }, JSON.stringify(rows))
  const apart: readonly (readonly Row[])[] = [
    [
      { path: '/api/admin', stripPrefix: '/api', ...owner },
      { path: '/api/*', stripPrefix: '/api' },
    ],
    [
      { path: '/a/admin', rewrite: '/b/admin', ...owner },
      { path: '/a/:x', rewrite: '/b/:x' },
    ],
    [
      { path: '/b/admin', ...owner },
      { path: '/c', rewrite: '/b/admin', ...owner },
    ],
    [
      { path: '/b/:id', organization: { param: 'id' } },
      { path: '/c/:o', rewrite: '/b/:o', organization: { param: 'o' } },
    ],
    [
      { path: '/b', methods: ['POST'], ...owner },
      { path: '/c', rewrite: '/b', methods: ['GET'] },
    ],
    [
      { path: '/b', ...owner },
      { path: '/c', rewrite: '/b', upstream: 'other' },
    ],
    [
      { path: '/b', host: 'a.example', stripPrefix: '/b', ...owner },
      { path: '/b', host: 'b.example', stripPrefix: '/b' },
    ],
    [
      { path: '/api/:id', stripPrefix: '/api' },
      { path: '/api/admin', stripPrefix: '/api', ...owner },
      { path: '/admin', ...owner },
    ],
  ]
  for (const rows of apart) t.doesNotThrow(() => compile(rows), JSON.stringify(rows))
})

t.test('upstreams with an address in common are one place, and base paths count', async (t) => {
  const addresses = (basePath: string, origin = 'http://b:80'): KnownUpstreams =>
    new Map([
      ['up', { origins: ['http://a:80', 'http://b:80'], basePath: '' }],
      ['other', { origins: [origin], basePath }],
    ])
  const rows: readonly Row[] = [
    { path: '/base/admin', ...owner },
    { path: '/admin', upstream: 'other' },
  ]
  t.throws(() => compile(rows, addresses('/base')), { message: /reaches the upstream as \/base\/admin/ })
  t.throws(() => compile(rows, addresses('/BASE')), { message: /reaches the upstream as \/base\/admin/ })
  t.doesNotThrow(() => compile(rows, addresses('')))
  t.doesNotThrow(() => compile(rows, addresses('/base', 'http://c:80')))
})

/** A path that members may not reach, in any spelling. */
const isProtected = (path: string): boolean => /^\/+b\/+admin(?:\/|;|$)/i.test(path)

const guarded: readonly Row[] = [
  { path: '/a/:x', rewrite: '/b/:x', encodedSlashes: 'allow' },
  { path: '/a/:x/*', rewrite: '/b/:x/*', encodedSlashes: 'allow' },
  // The client's path is open to all members, and goes elsewhere: only the upstream's path tells.
  { path: '/a/admin', rewrite: '/z' },
  { path: '/a/admin/*', rewrite: '/z/*' },
  { path: '/b/*' },
  { path: '/b/admin', rewrite: '/y' },
  { path: '/b/admin/*', rewrite: '/y/*' },
  { path: '/c', rewrite: '/b/admin', ...owner },
  { path: '/c/*', rewrite: '/b/admin/*', ...owner },
]

t.test('no reading of a rewritten path is another route’s that asks for more', async (t) => {
  const table = compileRoutes(compile(guarded).routes)
  let passed = 0
  const judge = (path: string): void => {
    let match: ReturnType<typeof table.match>
    try {
      match = table.match(readTarget('GET', path, 'h'), 'h')
    } catch {
      return
    }
    passed += 1
    const { route } = match
    if (route.role) return
    const after = route.rewrite ? rewritePath(route.rewrite, path) : path
    t.match(after, /^\/(?!\/)/, path)
    for (const { name, read } of backendReadings)
      if (isProtected(read(after))) t.fail(`${path} goes out as ${after}, which is protected: read ${name}`)
  }
  for (const path of [
    '/a/ADMIN',
    '/a/admin.',
    '/a/admin;x',
    '/a/%2561dmin',
    '/b/ADMIN',
    '/a/.../admin',
    '/a/x%2f..%2fadmin',
  ])
    judge(path)
  const part = fc.constantFrom(
    'admin',
    'ADMIN',
    'a',
    'b',
    'c',
    'x',
    ...segments.filter((text) => !/[\s\0#?]/.test(text)),
  )
  const target = fc
    .tuple(fc.constantFrom('/a/', '/a/', '/b/', '/c/'), fc.array(part, { minLength: 1, maxLength: 4 }))
    .map(([start, parts]) => `${start}${parts.join('/')}`)
  for (const path of fc.sample(target, { numRuns: 20_000, seed: 20_251 })) judge(path)
  t.ok(passed > 1_000, `${passed} passed`)
})

t.test('a spelling that leads to a stricter path of the upstream is refused', async (t) => {
  const table = compileRoutes(compile(guarded).routes)
  const find = (path: string): string => table.match(readTarget('GET', path, 'h'), 'h').route.id
  for (const path of ['/a/ADMIN', '/a/Admin/x', '/a/admin;x', '/b/ADMIN', '/b/admin/'])
    t.throws(() => find(path), { code: 'target_misreadable' }, path)
  t.equal(find('/a/admin'), 'r2')
  t.equal(find('/a/Users'), 'r0')
  t.equal(find('/c/ADMIN'), 'r8')
})

t.test('a table refuses a path that leads to a stricter route, even if the policy was not checked', async (t) => {
  const lax: Row = { path: '/files/*', rewrite: '/store/*' }
  const of = (...rows: readonly Row[]) => compileRoutes(rows.flatMap((row) => compile([row]).routes))
  const find = (table: ReturnType<typeof compileRoutes>, path: string, host = 'h'): string =>
    table.match(readTarget('GET', path, host), host).route.path
  const table = of(lax, { path: '/store/*', ...owner })
  for (const path of ['/files/1', '/files/1/2', '/files/A'])
    t.throws(() => find(table, path), { code: 'target_misreadable' }, path)
  t.equal(find(table, '/store/1'), '/store/*')
  t.equal(find(of(lax, { path: '/store/admin', ...owner }), '/files/1'), '/files/*')
  const hosts = of(
    { path: '/b/:id', host: 'a.example', stripPrefix: '/b', ...owner },
    { path: '/b/:id', stripPrefix: '/b' },
  )
  for (const host of ['a.example', 'b.example']) t.equal(find(hosts, '/b/1', host), '/b/:id', host)
})

const shared: KnownUpstreams = new Map([
  ['up', { origins: ['http://a:80'], basePath: '' }],
  ['based', { origins: ['http://a:80'], basePath: '/a' }],
])

const anyPattern = fc
  .tuple(fc.array(fc.constantFrom('a', 'b', 'admin', ':x', ':y'), { minLength: 1, maxLength: 3 }), fc.boolean())
  .map(([names, isOpen]) => [...new Set(names), ...(isOpen ? ['*'] : [])])

/** Paths of clients that lead to the same few paths of one backend. */
const anyRow: fc.Arbitrary<Row> = fc
  .record({
    names: anyPattern,
    wanted: anyPattern,
    change: fc.constantFrom('none', 'strip', 'whole', 'whole'),
    upstream: fc.constantFrom('up', 'up', 'based'),
    encodedSlashes: fc.constantFrom('allow', 'refuse'),
    isOwners: fc.boolean(),
  })
  .map(({ names, wanted, change, upstream, encodedSlashes, isOwners }): Row => {
    const [first = ''] = names
    const isKnown = (name: string): boolean => !/^[:*]/.test(name) || names.includes(name)
    const whole = change === 'whole' ? { rewrite: `/${wanted.filter(isKnown).join('/')}` } : {}
    const strip = change === 'strip' && !first.startsWith(':') ? { stripPrefix: `/${first}` } : {}
    return { path: `/${names.join('/')}`, upstream, encodedSlashes, ...whole, ...strip, ...(isOwners && owner) }
  })

const plainNames = ['a', 'b', 'admin', 'q']
const plainPaths = plainNames.flatMap((one) => [
  `/${one}`,
  ...plainNames.flatMap((two) => [`/${one}/${two}`, ...plainNames.map((three) => `/${one}/${two}/${three}`)]),
])

const anyPath = fc
  .array(
    fc.constantFrom(...plainNames, 'A', 'ADMIN', 'admin.', 'admin;x', 'a%2fb', 'b%2fadmin', '%2561dmin', '%20b', 'a/'),
    {
      minLength: 1,
      maxLength: 4,
    },
  )
  .map((parts) => `/${parts.join('/')}`)

/** The route of a path and the path of the backend, undefined where it is refused. */
function leads(table: ReturnType<typeof compileRoutes>, path: string) {
  try {
    const { route } = table.match(readTarget('GET', path, 'h'), 'h')
    return { isOwners: route.role !== undefined, after: route.rewrite ? rewritePath(route.rewrite, path) : path }
  } catch {
    return undefined
  }
}

function tryCompile(rows: readonly Row[]): ReturnType<typeof compileRoutes> | undefined {
  try {
    return compileRoutes(compile(rows, shared).routes)
  } catch {
    return undefined
  }
}

t.test('no generated policy has a path open to all that is read as one that owners alone reach', async (t) => {
  let judged = 0
  const policies = fc.sample(fc.array(anyRow, { minLength: 2, maxLength: 6 }), { numRuns: 3_000, seed: 20_251 })
  for (const [index, rows] of policies.entries()) {
    const table = rows.some(({ require }) => require) ? tryCompile(rows) : undefined
    if (!table) continue
    const ofOwners = new Set(
      plainPaths.flatMap((path) => {
        const led = leads(table, path)
        return led?.isOwners ? [led.after] : []
      }),
    )
    for (const path of [...plainPaths, ...fc.sample(anyPath, { numRuns: 40, seed: index })]) {
      const led = leads(table, path)
      if (!led || led.isOwners) continue
      judged += 1
      const reading = backendReadings.find(({ read }) => ofOwners.has(read(led.after)))
      if (reading) t.fail(`${path} goes out as ${led.after}, read ${reading.name}: ${JSON.stringify(rows)}`)
    }
  }
  t.ok(judged > 5_000, `${judged} paths`)
})
