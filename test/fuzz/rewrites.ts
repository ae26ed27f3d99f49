import type { Plan } from './plan.ts'

/** A route of clients, its keys beside the path, and the path that the backend gets. */
type Row = readonly [path: string, forwarded: string, keys: Readonly<Record<string, unknown>>]

const owner = { require: { role: 'org-owner' } }
const strip = { upstream: 'agents', stripPrefix: '/api' }
const to = (rewrite: string): Row[2] => ({ upstream: 'agents', rewrite })
const base = '/base/v1'

/** In the order of their precedence. Nothing that leads below `/nowhere` is guarded. */
const rows: readonly Row[] = [
  ['/public/*', `${base}/public/*`, { upstream: 'platform' }],
  ['/admin/*', `${base}/admin/*`, { upstream: 'platform', ...owner }],
  ['/api/admin', '/admin', { ...strip, ...owner }],
  ['/api/admin/*', '/admin/*', { ...strip, ...owner }],
  ['/api/b/*', '/nowhere/*', to('/nowhere/*')],
  ['/api/base/*', '/nowhere/*', to('/nowhere/*')],
  ['/api/*', '/*', { ...strip, encodedSlashes: 'allow' }],
  ['/sets/:id/rows/:row', '/v2/:row/of/:id', to('/v2/:row/of/:id')],
  ['/a/admin', '/z', to('/z')],
  ['/a/:x', '/b/:x', to('/b/:x')],
  ['/c', '/b/admin', { ...to('/b/admin'), ...owner }],
  ['/any/admin/*', '/nowhere/*', to('/nowhere/*')],
  ['/any/b/*', '/nowhere/*', to('/nowhere/*')],
  ['/any/base/*', '/nowhere/*', to('/nowhere/*')],
  ['/any/:x/*', '/:x/*', to('/:x/*')],
]

/**
 * The forwarded path, by another way than the gateway's: names are filled into a text, and what is not rewritten keeps its
 * bytes. Undefined if the route is another one.
 */
function fill([path, forwarded, { rewrite, stripPrefix, upstream }]: Row, sent: string): string | undefined {
  const pieces = sent.slice(1).split('/')
  const names = path.slice(1).split('/')
  const values = new Map<string, string>()
  for (const [index, name] of names.entries()) {
    const piece = name === '*' ? pieces.slice(index).join('/') : pieces[index]
    if (piece === undefined || (/^[:*]/.test(name) && piece === '')) return undefined
    if (!/^[:*]/.test(name) && decodeURIComponent(piece) !== name) return undefined
    values.set(name, piece)
  }
  if (names.at(-1) !== '*' && pieces.length !== names.length) return undefined
  if (rewrite !== undefined) return forwarded.replace(/:\w+|\*/g, (name) => values.get(name) ?? '')
  const kept = stripPrefix === undefined ? sent : sent.slice(sent.indexOf('/', 1))
  return `${upstream === 'platform' ? base : ''}${kept}`
}

function follow(sent: string): readonly [row: Row, forwarded: string] | undefined {
  for (const row of rows) {
    const forwarded = fill(row, sent)
    if (forwarded !== undefined) return [row, forwarded]
  }
  return undefined
}

/** All upstreams are one backend, which has a base path for one of them. Callers of the run hold no owner's role. */
export const rewritingPlan: Plan = {
  routes: rows.map(([path, , keys], index) => ({ id: `r${index}`, match: { path }, surface: 'platform', ...keys })),
  upstreams: (backend) => ({ platform: { url: `${backend}${base}` }, agents: { url: backend } }),
  starts: [
    '/public/',
    '/public/',
    '/api/',
    '/api/',
    '/api/base/',
    '/a/',
    '/any/x/',
    '/any/',
    '/sets/1/rows/',
    '/sets/',
  ],
  words: ['api', 'a', 'b', 'base', 'v1', 'any', 'admin', 'c', 'sets', 'rows', '%61pi', 'b%2fadmin', 'admin%2fx', 'API'],
  forward: (target) => {
    const [path = '', ...query] = target.split('?')
    const [, forwarded] = follow(path) ?? []
    return forwarded && [forwarded, ...query].join('?')
  },
  prefixOf: (target) => follow(target.split('?', 1)[0] ?? '')?.[0][2].stripPrefix as string | undefined, // as written above
  isProtected: (path) => /^\/+(?:base\/+v1\/+)?admin(?:\/|;|$)/i.test(path) || /^\/+b\/+admin(?:\/?|;.*)$/i.test(path),
}
