import t from 'tap'
import { coverRoutes } from '../../../gateway/analyze/openapi/cover.ts'
import { draftTable } from '../../../gateway/analyze/openapi/draft.ts'
import { readOperations } from '../../../gateway/analyze/openapi/read-operations.ts'
import { parsePolicy } from '../../../gateway/policy/load.ts'
import { parseTable } from '../../support/policy-table.ts'

type Paths = Readonly<Record<string, unknown>>

const describe = (paths: Paths, more: Readonly<Record<string, unknown>> = {}): string =>
  JSON.stringify({ openapi: '3.1.0', info: { title: 'x', version: '1' }, paths, ...more }, undefined, '\t')

const read = (paths: Paths, more = {}, base?: string) => readOperations('api.json', describe(paths, more), base)

const patternsOf = (...of: Parameters<typeof read>) => read(...of).map(({ method, pattern }) => `${method} ${pattern}`)

const cover = (routes: readonly string[], paths: Paths) => {
  const { unrouted, undescribed } = coverRoutes(parseTable({ routes }), read(paths))
  return {
    unrouted: unrouted.map(({ method, template }) => `${method} ${template}`),
    undescribed: undescribed.map(({ path, methods }) => `${methods.join('+')} ${path}`),
  }
}

t.test('operations are read from YAML and JSON, with their places', async (t) => {
  const yaml =
    'openapi: 3.0.3\npaths:\n  /things/{id}:\n    parameters: []\n    get: { operationId: getThing }\n    put: {}\n'
  t.strictSame(readOperations('api.yaml', yaml, undefined), [
    {
      method: 'GET',
      template: '/things/{id}',
      pattern: '/things/:id',
      isWider: false,
      split: undefined,
      id: 'getThing',
      isOpen: false,
      place: 'api.yaml:5:10',
    },
    {
      method: 'PUT',
      template: '/things/{id}',
      pattern: '/things/:id',
      isWider: false,
      split: undefined,
      id: undefined,
      isOpen: false,
      place: 'api.yaml:6:10',
    },
  ])
  t.strictSame(patternsOf({ '/things': { get: {}, post: {}, 'x-y': {} }, 'x-z': {} }), ['GET /things', 'POST /things'])
})

t.test('the base path comes from the nearest servers, or from the option', async (t) => {
  const paths = { '/a': { get: {} } }
  for (const [url = '', pattern] of [
    ['https://api.example/v1/', '/v1/a'],
    ['https://api.example', '/a'],
    ['/v2', '/v2/a'],
    ['https://{host}/{base}', '/v3/a'],
  ])
    t.strictSame(
      patternsOf(paths, { servers: [{ url, variables: { host: { default: 'h' }, base: { default: 'v3' } } }] }),
      [`GET ${pattern}`],
      url,
    )
  const nearer = { '/a': { servers: [{ url: '/item' }], get: {}, post: { servers: [{ url: '/own' }] } } }
  t.strictSame(patternsOf(nearer, { servers: [{ url: '/v1' }] }), ['GET /item/a', 'POST /own/a'])
  t.strictSame(patternsOf(nearer, {}, '/b'), ['GET /b/a', 'POST /b/a'])
  t.throws(() => read(paths, { servers: [{ url: '/{x}' }] }), { message: /"x" of servers\[0\]\.url has no default/ })
})

t.test('templates become patterns, whatever stands in them', async (t) => {
  for (const [template, pattern, isWider] of [
    ['/', '/', false],
    ['/a/{a-b}/{a_b}', '/a/:a_b/:a_b_2', false],
    ['/{2}', '/:p2', false],
    ['/files/{name}.{type}', '/files/:name', true],
    ['/things/{id}:run', '/things/:id', true],
    ['/:run/*', '/%3Arun/%2A', false],
    ['/a b/%7Ec/é', '/a%20b/%7Ec/%C3%A9', false],
  ] as const)
    t.match(read({ [template]: { get: {} } }), [{ pattern, isWider }], template)
})

t.test('a parameter that may hold several segments is the rest, or no pattern where it is not the last', async (t) => {
  for (const template of [
    '/f/{name+}',
    '/f/{proxy+}',
    '/f/{name*}',
    '/f/{name=**}',
    '/f/{name=a/**}',
    '/f/{n:path}',
    '/f/{n:.*}',
    '/f/{name...}',
  ])
    t.match(read({ [template]: { get: {} } }), [{ pattern: '/f/*', split: undefined }], template)
  const withParameter = (parameter: unknown, template = '/f/{x}') =>
    read({ [template]: { get: { parameters: [{ name: 'x', in: 'path', ...Object(parameter) }] } } })
  const several: readonly unknown[] = [
    { 'x-multi-segment': true },
    { allowReserved: true },
    { schema: { 'x-multi-segment': true } },
    ...['^.+$', '^[\\w/.-]+$', '^a/.*'].map((pattern) => ({ schema: { pattern } })),
    { schema: { format: 'path' } },
    { example: 'a/b' },
    { examples: { one: { value: 'a/b' } } },
    { schema: { enum: ['a', 'a/b'] } },
    ...['May contain `/`.', 'Slashes are kept.', 'One or multiple segments', 'Path to the object'].map(
      (description) => ({
        description,
      }),
    ),
    { schema: { title: 'File Path' } },
    ...['allOf', 'anyOf', 'oneOf'].map((how) => ({ schema: { [how]: [{ type: 'integer' }, { pattern: '^.+/.+$' }] } })),
    { schema: { allOf: [{ oneOf: [{ format: 'path' }] }] } },
  ]
  for (const parameter of several) t.match(withParameter(parameter), [{ pattern: '/f/*' }], JSON.stringify(parameter))
  t.match(read({ '/f/{file_path}': { get: {} } }), [{ pattern: '/f/*' }], 'as FastAPI describes {file_path:path}')
  const single: readonly unknown[] = [
    {},
    ...['^[^/]+$', '^[a-z0-9-]+$', '[a-z]+', '^(a'].map((pattern) => ({ schema: { pattern } })),
    { description: 'The name. It must not contain a slash.' },
    { example: 'a-b' },
  ]
  for (const parameter of single) t.match(withParameter(parameter), [{ pattern: '/f/:x' }], JSON.stringify(parameter))
  for (const template of ['/f/{id:[0-9]+}', '/f/{id:int}', '/f/{id=*}', '/f/{id}'])
    t.match(read({ [template]: { get: {} } }), [{ pattern: '/f/:id', split: undefined }], template)
  t.match(withParameter({ 'x-multi-segment': true }, '/f/{x}/meta'), [{ split: 'x' }])
  const text = draftTable(read({ '/f/{name+}/meta': { get: {} }, '/f/{name+}': { get: {} } }), 'platform')
  const { routes } = parsePolicy('drafts', new Map([['api.yaml', text]]), new Set(['platform']))
  t.same(
    routes.map(({ path }) => path),
    ['/f/*'],
  )
  t.match(text, '# GET /f/{name+}/meta: "name" may hold several segments before the end, so write its routes by hand')
})

t.test('an unreadable part is reported with its place', async (t) => {
  t.throws(() => readOperations('x', '{"swagger":"2.0"}', undefined), {
    name: 'ConfigurationError',
    message: /^x:1:18: is not an OpenAPI 3/,
  })
  t.throws(() => read({ '/a//b': { get: {} } }), { message: /^api\.json:\d+:\d+: a path has no empty segment/ })
  t.throws(() => read({ '/a?b': { get: {} } }), { message: /no query or fragment/ })
  t.throws(() => read({ '/a': { $ref: 'other.yaml' } }), { message: /the \$ref leads out of this file/ })
  t.throws(() => read({ '/a': { $ref: '#/components/pathItems/none' } }), {
    message: /the \$ref leads out of this file/,
  })
  t.throws(() => read({ '/a': { $ref: '#/%' } }), { message: /the \$ref leads out of this file/ })
  const items = { components: { pathItems: { 'a/b': { get: {} } } } }
  t.strictSame(patternsOf({ '/a': { $ref: '#/components/pathItems/a~1b' } }, items), ['GET /a'])
})

t.test('coverage names exactly the operations without a route', async (t) => {
  const routes = ['/things GET', '/things/:id GET,PUT', '/rest/*', '/one/special GET', '/h GET host: h.example']
  const paths = {
    '/things': { get: {}, head: {}, post: {} },
    '/things/{thing}': { get: {}, put: {}, trace: {} },
    '/things/{thing}/parts': { get: {} },
    '/rest/a/b': { delete: {} },
    '/rest': { get: {} },
    '/one/{id}': { get: {} },
    '/h': { get: {} },
  }
  t.strictSame(cover(routes, paths).unrouted, [
    'POST /things',
    'TRACE /things/{thing}',
    'GET /things/{thing}/parts',
    'GET /rest',
    'GET /one/{id}',
  ])
})

t.test('coverage names exactly the routes, and methods of routes, without an operation', async (t) => {
  const routes = [
    '/things GET,POST',
    '/things/:id GET,DELETE',
    '/things/special PUT',
    '/rest/*',
    '/other/*',
    '/old GET',
  ]
  const paths = {
    '/things': { get: {} },
    '/things/{id}': { get: {}, delete: {}, put: {} },
    '/rest/a': { get: {} },
  }
  t.strictSame(cover(routes, paths), {
    unrouted: ['PUT /things/{id}'],
    undescribed: ['POST /things', 'GET+HEAD+POST+PUT+PATCH+DELETE+OPTIONS /other/*', 'GET /old'].map((line) =>
      line.replace('GET+HEAD', 'GET'),
    ),
  })
})

t.test('coverage names operations with a parameter that no resource guards', async (t) => {
  const agent = 'require: { role: org-member } resource: { kind: agent, param: id }'
  const routes = [
    '/things/:id GET require: { role: org-member }',
    `/agents/:id GET ${agent}`,
    `/agents/:id/parts/:part GET ${agent}`,
    '/notes/:id GET require: { role: org-member } unguarded: { id: Everyone may read a note. }',
    '/files/* GET require: { role: org-member }',
    '/pages/:id GET access: public',
    '/lists GET require: { role: org-member }',
  ]
  const get = { get: {} }
  const paths = {
    '/things/{id}': get,
    '/things/special': get,
    '/agents/{agent}': get,
    '/agents/{agent}/parts/{part}': get,
    '/notes/{id}': get,
    '/files/{name}': get,
    '/pages/{id}': get,
    '/lists': get,
    '/lost/{id}': get,
  }
  const { objects } = coverRoutes(parseTable({ routes }), read(paths))
  t.equal(objects.operations, 6)
  t.same(
    objects.unguarded.map(({ method, template, route }) => `${method} ${template} ${route}`),
    ['GET /things/{id} r0', 'GET /agents/{agent}/parts/{part} r2', 'GET /files/{name} r4'],
  )
})

t.test('a draft is a sound table in which owners alone pass, and only with OAuth', async (t) => {
  const operations = read({
    '/v1/things': { get: { operationId: 'List things!' }, post: {}, trace: {} },
    '/v1/things/{id}': { get: { operationId: 'list things' }, delete: { security: [] } },
    '/v1/things/{id}.json': { get: {} },
    '/': { get: {} },
  })
  const text = draftTable(operations, 'platform')
  const policy = parsePolicy('drafts', new Map([['api.yaml', text]]), new Set(['platform']))
  t.strictSame(
    policy.routes.map(({ id, path, methods, ability }) => `${id} ${[...methods][0]} ${path} ${ability}`),
    [
      'list.things GET /v1/things things:read',
      'post.v1.things POST /v1/things things:write',
      'list.things.2 GET /v1/things/:id things:read',
      'delete.v1.things.id DELETE /v1/things/:id things:write',
      'get GET / api:read',
    ],
  )
  t.ok(policy.routes.every(({ role, isPublic }) => role?.slug === 'org-owner' && !isPublic))
  t.strictSame(
    [...policy.roles.organization.values()].map(({ abilities }) => abilities.size),
    [0, 0, 0, 3],
  )
  t.equal(policy.roles.tokenScopes.size, 0)
  t.match(text, '# DELETE /v1/things/{id}: the description asks for no credential')
  t.match(text, '# GET /v1/things/{id}.json: falls under /v1/things/{id}')
  t.match(text, '# TRACE /v1/things: the gateway does not serve this method')
  const served = operations.filter(({ method }) => method !== 'TRACE')
  const { objects, ...covered } = coverRoutes(policy, served)
  t.strictSame(covered, { operations: 6, unrouted: [], undescribed: [] })
  t.equal(objects.unguarded.length, objects.operations, 'a draft guards nothing yet')
})

t.test('an empty description drafts an empty table', async (t) => {
  const text = draftTable(read({}), 'platform')
  t.equal(parsePolicy('drafts', new Map([['api.yaml', text]]), new Set()).routes.length, 0)
})
