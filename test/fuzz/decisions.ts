import fc from 'fast-check'
import { backendReadings } from '../support/backend-readings.ts'
import { hosts } from './advisory-lines.ts'
import type { Caller } from './requests.ts'
import { queries, segments } from './vocabulary.ts'

/** The request that a client sent to a proxy. */
type Truth = Readonly<{ method: string; target: string; host: string }>

/** A question to the decision listener, as a proxy of one kind asks it, with what its client added. */
export type Question = Readonly<{
  truth: Truth
  proxy: ProxyKind
  caller: Caller | undefined
  forged: readonly string[]
}>

/**
 * The headers by which proxies report it. A client's line with a name in `owns` does not pass; any other spelling does.
 */
const proxies = {
  traefik: {
    owns: /^(?:x-forwarded-(?:method|uri|host|proto|for)|host)$/,
    tell: ({ method, target, host }: Truth) => ({
      line: 'GET /authorize',
      lines: [
        'Host: gateway:8081',
        `X-Forwarded-Method: ${method}`,
        `X-Forwarded-Uri: ${target}`,
        `X-Forwarded-Host: ${host}`,
        'X-Forwarded-Proto: https',
      ],
    }),
  },
  caddy: {
    owns: /^(?:x-forwarded-(?:method|uri|host|proto|for)|host)$/,
    tell: ({ method, target, host }: Truth) => ({
      line: 'GET /authorize',
      lines: [
        `Host: ${host}`,
        `X-Forwarded-Method: ${method}`,
        `X-Forwarded-Uri: ${target}`,
        `X-Forwarded-Host: ${host}`,
      ],
    }),
  },
  nginx: {
    owns: /^(?:x-original-(?:method|uri)|host)$/,
    tell: ({ method, target, host }: Truth) => ({
      line: 'GET /authorize',
      lines: [`Host: ${host}`, `X-Original-Method: ${method}`, `X-Original-URI: ${target}`],
    }),
  },
  envoy: {
    owns: /^host$/,
    tell: ({ method, target, host }: Truth) => ({ line: `${method} /envoy${target}`, lines: [`Host: ${host}`] }),
  },
  'envoy-named': {
    owns: /^host$/,
    tell: ({ method, target, host }: Truth) => ({ line: `${method} /envoy-named${target}`, lines: [`Host: ${host}`] }),
  },
} as const

type ProxyKind = keyof typeof proxies

/** Routes that members may not use: the owner's path, host and method. */
export const decisionRoutes = [
  { id: 'any', match: { path: '/*', methods: ['GET', 'POST'] } },
  { id: 'admin', match: { path: '/admin' }, require: { role: 'org-owner' } },
  { id: 'admin.any', match: { path: '/admin/*' }, require: { role: 'org-owner' } },
  { id: 'host', match: { path: '/*', host: 'admin.example' }, require: { role: 'org-owner' } },
  { id: 'delete', match: { path: '/*', methods: ['DELETE'] }, require: { role: 'org-owner' } },
].map((route) => ({ ...route, surface: 'platform', upstream: 'platform' }))

/** Whether what was asked for is the owner's, in any way that a backend may read it. */
export function isOwners({ method, target, host }: Truth): boolean {
  const [path = ''] = target.split('?', 1)
  return (
    method === 'DELETE' ||
    /^admin\.example\.?(?::\d*)?$/i.test(host) ||
    backendReadings.some(({ read }) => /^\/+admin(?:\/|;|$)/i.test(read(path)))
  )
}

const pick = <Value>(values: readonly Value[]): fc.Arbitrary<Value> => fc.constantFrom(...values)

const methods = ['GET', 'GET', 'GET', 'POST', 'DELETE', 'HEAD']
const someHosts = [
  'open.example',
  'open.example',
  'admin.example',
  'ADMIN.example',
  'admin.example:443',
  'admin.example.',
]
const targets = [
  '/x',
  '/public/x',
  '/datasets',
  '/admin/x',
  '/%61dmin/x',
  '/public/../admin/x',
  '/Admin/x',
  '/x?a=/admin',
]
const wildTarget = fc
  .tuple(fc.array(pick(segments), { minLength: 1, maxLength: 4 }), pick(queries))
  .map(([parts, query]) => `/${parts.join('/')}${query}`.replace(/[\s\0]/g, ''))

const names = ['x-forwarded-method', 'x-forwarded-uri', 'x-forwarded-host', 'x-original-method', 'x-original-uri']
const otherNames = [
  'x-original-host',
  'x-original-url',
  'x-rewrite-url',
  'x-http-method-override',
  'forwarded',
  'connection',
]
const marks = ['-', '-', '-', '-', ...'_.+~!$|']

/** A line that pretends to be a proxy's: often with what is true, since that is what a check may be content with. */
const forgedLine = (truth: Truth): fc.Arbitrary<string> =>
  fc
    .tuple(
      pick([...names, ...names, ...otherNames]),
      pick(marks),
      pick([0, 1, 2]),
      pick(targets),
      pick([...someHosts, ...hosts]),
    )
    .map(([name, mark, kind, target, host]) => {
      const isTrue = kind === 0
      const spelled = kind === 2 ? name.replace('-', mark).toUpperCase() : name.replaceAll('-', mark)
      if (name === 'connection') return `Connection: ${names.join(', ')}`
      if (name === 'forwarded') return `Forwarded: host=${host}`
      if (name.endsWith('method') || name.endsWith('override')) return `${spelled}: ${isTrue ? truth.method : 'GET'}`
      if (name.endsWith('host')) return `${spelled}: ${isTrue ? truth.host : host}`
      return `${spelled}: ${isTrue ? truth.target : target}`
    })

const anyTruth = fc.record({
  method: pick(methods),
  target: fc.oneof({ weight: 3, arbitrary: pick(targets) }, { weight: 1, arbitrary: wildTarget }),
  host: fc.oneof({ weight: 9, arbitrary: pick(someHosts) }, { weight: 1, arbitrary: pick(hosts) }),
})

/** Questions of callers who are not owners. */
export const questions = (callers: readonly Caller[]): fc.Arbitrary<Question> =>
  anyTruth.chain((truth) =>
    fc.record({
      truth: fc.constant(truth),
      proxy: pick(Object.keys(proxies) as readonly ProxyKind[]),
      caller: fc.option(pick(callers), { freq: 12, nil: undefined }),
      forged: fc.array(forgedLine(truth), { maxLength: 4 }),
    }),
  )

/** The bytes that the decision listener gets. */
export function toQuestionBytes({ truth, proxy, caller, forged }: Question): Buffer {
  const { owns, tell } = proxies[proxy]
  const { line, lines } = tell(truth)
  const passed = forged.filter((text) => !owns.test(text.slice(0, text.indexOf(':')).toLowerCase()))
  const credential = caller ? [`${caller.header[0]}: ${caller.header[1]}`] : []
  return Buffer.from(`${[`${line} HTTP/1.1`, ...lines, ...credential, ...passed].join('\r\n')}\r\n\r\n`, 'latin1')
}
