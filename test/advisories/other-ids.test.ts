import fc from 'fast-check'
import t from 'tap'
import { lintPolicy } from '../../gateway/analyze/lint.ts'
import { compilePolicy } from '../../gateway/policy/compile.ts'
import { readTarget } from '../../gateway/stages/receive/target.ts'
import { compileRoutes } from '../../gateway/stages/route/table.ts'
import { call } from '../support/client.ts'
import { startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { imaginePolicyFile } from '../support/policy-file.ts'
import { oauth, startTestWorld } from '../support/world.ts'
import { slowReadings } from './path-readings.ts'

const world = await startTestWorld(t)
const { acme, globex } = world.agents
const headers = oauth(world.users.member)

const guard = { surface: 'platform', upstream: 'platform', resource: { kind: 'agent', param: 'id' } }
const routes = [
  { ...guard, id: 'wide', match: { path: '/wide/:any/:id/*' } },
  { ...guard, id: 'exact', match: { path: '/exact/:any/:id' } },
  { ...guard, id: 'slashed', match: { path: '/slashed/:any/:id/*' }, encodedSlashes: 'allow' },
  { ...guard, id: 'first', match: { path: '/first/:id/*' } },
  { ...guard, id: 'apart', match: { path: '/apart/:any/:id' } },
  { ...guard, id: 'apart.long', match: { path: '/apart/:any/:id/more/:rest' } },
  { ...guard, id: 'literal', upstream: 'third', match: { path: '/literal/:any/:id/:sub' } },
  { ...guard, id: 'literal.first', upstream: 'third', match: { path: '/literal/x/:any/:id' } },
  { ...guard, id: 'turned', upstream: 'based', match: { path: '/turned/:id/:any' }, rewrite: '/at/:any/:id' },
  { ...guard, id: 'turned.wide', upstream: 'based', match: { path: '/wider/:id/:any/*' }, rewrite: '/wide/:any/:id/*' },
  { ...guard, id: 'strip', upstream: 'other', match: { path: '/strip/:any/:id/*' }, stripPrefix: '/strip' },
  { ...guard, id: 'plain', upstream: 'mixed', match: { path: '/sets/:any/:id' } },
  { ...guard, id: 'alias', upstream: 'mixed', match: { path: '/alias/:any/:id' }, rewrite: '/sets/:any/:id/z' },
]

/** Each is judged by an agent of the caller; some server would take the other's. */
const confusing: Readonly<Record<string, readonly string[]>> = {
  'names that some servers leave out': [
    ...[
      '...',
      '....',
      '%20',
      '%C2%A0',
      '%E2%80%A6',
      '%EF%BC%8E%EF%BC%8E%EF%BC%8E',
      '%252520',
      '%20%3Bx',
      '%20.',
      '.%20',
    ].map((name) => `/wide/${name}/${acme}/${globex}/z`),
    `/strip/.../${acme}/${globex}/z`,
    `/strip/%20/${acme}/${globex}/z`,
  ],
  'slashes by compatibility': [
    `/wide/x%EF%BC%8F${globex}/${acme}/z`,
    `/wide/x%25EF%25BC%258F${globex}/${acme}/z`,
    `/wide/x%EF%BC%BC${globex}/${acme}/z`,
    `/apart/x%EF%BC%8F${globex}%EF%BC%8Fmore/${acme}`,
    `/strip/x%EF%BC%8F${globex}/${acme}/z`,
    `/sets/x%EF%BC%8F${globex}%EF%BC%8Fz%EF%BC%9F/${acme}`,
  ],
  'slashes that the route allows': [`/slashed/x%2F${globex}/${acme}/z`, `/slashed/x%2f${globex}%2F1/${acme}/z`],
  'ends within names': [
    `/exact/x%EF%BC%8F${globex}%EF%BC%9F/${acme}`,
    `/exact/x%EF%BC%8F${globex}%3F/${acme}`,
    `/exact/x%EF%BC%8F${globex}%23/${acme}`,
    `/turned/${acme}/x%EF%BC%8F${globex}%3F`,
    `/wider/${acme}/x%EF%BC%8F${globex}/z`,
    `/wider/${acme}/.../${globex}/z`,
  ],
  'another route, with its id elsewhere': [`/literal/X/${acme}/${globex}`, `/literal/x./${acme}/${globex}`],
  'slashes and ends in escapes of escapes': [
    `/exact/7%252F${globex}%253F/${acme}`,
    `/wide/7%2F${globex}/${acme}/z`,
    `/wide/7%5C${globex}/${acme}/z`,
  ],
  'path parameters alone and empty names': [
    `/wide/;x/${acme}/${globex}/z`,
    `/wide/%3Bx/${acme}/${globex}/z`,
    `/wide//${acme}/${globex}`,
  ],
}

const received: (() => readonly string[])[] = []
const start = async (): Promise<string> => {
  const upstream = await startRawUpstream(t, (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'))
  received.push(upstream.received)
  return upstream.url
}
const upstreams = {
  platform: { url: await start() },
  based: { url: `${await start()}/base` },
  other: { url: await start() },
  mixed: { url: await start() },
  third: { url: await start() },
}
const gateway = await startTestGateway(t, { world, routes, upstreams })
const ask = async (path: string): Promise<number> => (await call(gateway.public, { path, headers })).status

for (const [what, targets] of Object.entries(confusing))
  t.test(`${what} lead no caller to another's id`, async (t) => {
    for (const target of targets) {
      t.match(await ask(target), /^40[04]$/, target)
      const original = { ...headers, 'x-original-method': 'GET', 'x-original-uri': target }
      t.match((await call(gateway.decision, { path: '/authorize', headers: original })).status, /^40[0-4]$/, target)
    }
    t.same(
      received.flatMap((list) => list()),
      [],
      'nothing arrived',
    )
  })

t.test('honest names pass beside a guarded id', async (t) => {
  for (const path of [
    `/wide/Some%20Name/${acme}/X;a`,
    `/wide/a%2520b/${acme}/z/`,
    `/wide/a.b./${acme}/z`,
    `/wide/%3Fx/${acme}/z`,
    `/exact/caf%C3%A9/${acme}`,
    `/exact/A;b/%3${String(acme)[0]}${String(acme).slice(1)}`,
    `/slashed/Plain/${acme}/a%2Fb`,
    `/first/${acme}/.../${globex}/a%20b`,
    `/first/${acme}/x%EF%BC%8F${globex}`,
    `/turned/${acme}/Some%20Name`,
    `/wider/${acme}/A;b/%20/z`,
    `/strip/Name./${acme}/z`,
    `/sets/Name/${acme}`,
    `/alias/Name;x/${acme}`,
  ])
    t.equal(await ask(path), 200, path)
  t.equal(await ask(`/wide/x/${globex}/z`), 404)
})

const kinds = { set: { id: 'text' }, box: { id: 'integer', parent: 'set' } }
const roles = ['org-client', 'org-member', 'org-admin', 'org-owner']
const organizationRoles = roles.map((slug) => ({ slug, name: slug, abilities: [] }))

const compile = (paths: readonly string[], more: object) => {
  const rows = paths.map((path, index) => ({
    id: `row.${index}`,
    match: { path },
    surface: 'platform' as const,
    upstream: 'up',
    ...more,
  }))
  const file = imaginePolicyFile('routes.yaml', { organizationRoles, resources: kinds, routes: rows } as never)
  const policy = compilePolicy([file], new Set(['up']))
  return { ...compileRoutes(policy.routes), policy }
}

const misreadable = { code: 'target_misreadable', status: 400 }

t.test('each value that a decision comes from counts: organization, parents, and questions', async (t) => {
  const role = { require: { role: 'org-member' } }
  const path = '/a/:any/:y/*'
  for (const [paths, more, target] of [
    [[path], { ...role, organization: { param: 'y' } }, '/a/.../1/7/z'],
    [['/a/:any/:y/:z/*'], { ...role, resource: { kind: 'box', param: 'z', parents: ['y'] } }, '/a/%20/mine/yours/1/z'],
    [[path], { ...role, resource: { kind: 'set', param: 'y' } }, '/a/.../mine/yours/z'],
    [
      [path],
      { ...role, decision: { pdp: 'pdp', action: 'read', resource: { type: 'set', param: 'y' } } },
      '/a/.../1/7/z',
    ],
    // Some drop a dot at the end of a name, and another set has the rest of it for its id.
    [[path], { ...role, resource: { kind: 'set', param: 'y' } }, '/a/x/yours./z'],
  ] as const)
    t.throws(() => compile(paths, more).match(readTarget('GET', target, 'h'), 'h'), misreadable, target)
  const sets = compile([path], { ...role, resource: { kind: 'set', param: 'y' } })
  for (const target of ['/a/x/My-Set/z', '/a/x/%4Dy%2DSet/z', '/a/X/my.set_1~/Z.', '/a/x/my%7E/z', '/a/x/a.B/z;x'])
    t.doesNotThrow(() => sets.match(readTarget('GET', target, 'h'), 'h'), target)
})

t.test('a malformed id stays 404, whatever servers read', (t) => {
  const guarded = { require: { role: 'org-member' }, resource: { kind: 'agent', param: 'y' } }
  const agents = compile(['/a/:x/:y'], guarded)
  for (const target of ['/a/x/1%20', '/a/x/%201', '/a/x/1;v=1', '/a/x/r%C3%A9port', '/a/x/%E2%80%A6'])
    t.doesNotThrow(() => agents.match(readTarget('GET', target, 'h'), 'h'), target)
  t.throws(() => agents.match(readTarget('GET', '/a/x%EF%BC%8F2%3F/1', 'h'), 'h'), misreadable)
  t.end()
})

t.test('policy check names routes that lose names with slashes', async (t) => {
  const guarded = { require: { role: 'org-member' }, resource: { kind: 'agent', param: 'id' } }
  const warn = (path: string, more: object = { encodedSlashes: 'allow' }): number =>
    lintPolicy(compile([path], { ...guarded, ...more }).policy).filter(({ message }) => /refuses %2F/.test(message))
      .length
  t.equal(warn('/a/:any/:id/*'), 1)
  t.same([warn('/a/:any/:id'), warn('/a/:id/:any/*'), warn('/a/:id/*'), warn('/a/:any/:id/*', {})], [0, 0, 0, 0])
})

const piece = fc.constantFrom(
  ...[
    'a',
    'x',
    'X',
    '1',
    '7',
    '8',
    '1/',
    '/7',
    '/8/',
    'info',
    'INFO',
    '.',
    '...',
    '%20',
    ';',
    ';v',
    '/',
    '/',
    '/',
    '/',
    '%2F',
    '%252F',
  ],
  ...['%3F', '%23', '%253F', '%EF%BC%8F', '%EF%BC%9F', '%EF%BC%BC', '%E2%80%A6', '%25EF%25BC%258F', '%C2%A0', '%41'],
)
const targets = fc.array(piece, { minLength: 1, maxLength: 9 }).map((pieces) => `/a/${pieces.join('')}`)

t.test('no reading of a target that is found has another value', async (t) => {
  const more = { require: { role: 'org-member' }, resource: { kind: 'agent', param: 'y' }, encodedSlashes: 'allow' }
  const paths = ['/a/:x/:y', '/a/:x/:y/*', '/a/:y/info', '/a/x/:y/:z/info']
  const table = compile(paths, more)
  const plain = compile(paths, { ...more, access: 'public', require: undefined, resource: undefined })
  const findId = (segments: readonly string[]): string | undefined => {
    try {
      const [path, search] = [`/${segments.map(encodeURIComponent).join('/')}`, '']
      return plain.match({ method: 'GET', path, search, segments, hasEncodedSlash: false }, 'h').params.get('y')
    } catch {
      return undefined
    }
  }
  let found = 0
  fc.assert(
    fc.property(targets, (path) => {
      let id: string | undefined
      let target: ReturnType<typeof readTarget>
      try {
        target = readTarget('GET', path, 'h')
        id = table.match(target, 'h').params.get('y')
      } catch {
        return
      }
      // Any other text is 404.
      if (!/^[1-9]\d*$/.test(id ?? '')) return
      found += 1
      for (const reading of slowReadings(target)) {
        const other = findId(reading.split('\0'))?.replace(/%[2-7][0-9a-f]/gi, decodeURIComponent)
        if (other !== undefined && other !== id) throw new Error(`${path}: judged by ${id}, read as ${other}`)
      }
    }),
    { numRuns: 30_000 },
  )
  t.ok(found > 300, `${found} targets`)
})
