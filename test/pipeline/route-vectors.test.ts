import t from 'tap'
import { call, callRaw } from '../support/client.ts'
import { openRoute, startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { testVectors } from '../support/vectors.ts'

type Vectors = Readonly<{
  patterns: readonly string[]
  cases: readonly Readonly<{ path: string; match: string | null }>[]
}>

/** heimdall writes `*name` and `**` for the rest, and escapes literal stars and colons. */
const translate = (pattern: string): string =>
  pattern
    .split('/')
    .map((segment) =>
      /^\*(?:\*|[a-z]+)$/.test(segment) ? '*' : segment.replace(/^\\\*/, '%2A').replace(/^\\:/, '%3A'),
    )
    .join('/')

/** The number of matches of each route, by its id. */
async function countMatches(admin: string): Promise<ReadonlyMap<string, number>> {
  const { text } = await call(admin, { path: '/metrics' })
  const counts = new Map<string, number>()
  for (const [, id = '', count] of text.matchAll(/^sallyport_requests_total\{[^}]*route="([^"]*)"[^}]*\} (\d+)$/gm))
    counts.set(id, (counts.get(id) ?? 0) + Number(count))
  return counts
}

testVectors(
  t,
  'proxy/route-match.json',
  'through a whole gateway the same route wins as in another implementation',
  async (t, read) => {
    const { patterns, cases } = read as Vectors
    t.equal(cases.length, 46)
    const upstream = await startRawUpstream(t, (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'))
    // A backslash inside a segment is refused at load here, and in a request before it is matched.
    const listed = patterns
      .map((pattern, index) => ({ ...openRoute, id: `row-${index}`, match: { path: translate(pattern) } }))
      .filter(({ match }) => !match.path.includes('\\'))
    for (const [order, routes] of Object.entries({ listed, reversed: listed.toReversed() })) {
      const gateway = await startTestGateway(t, { routes, upstreams: { platform: { url: upstream.url } } })
      for (const { path, match } of cases) {
        // Their paths come parsed; in a request a character beyond ASCII is escaped.
        const wire = path.replace(/[^\x21-\x7e]+/gu, encodeURIComponent)
        const isMalformed = path.includes('//') || /%2f/i.test(path) || path.includes('\\')
        const before = await countMatches(gateway.admin)
        const arrived = upstream.received().join('').length
        const answer = await callRaw(gateway.public, `GET ${wire} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n`)
        const status = isMalformed ? 400 : match === null ? 404 : 200
        t.equal(Number(answer.split(' ')[1]), status, `${path}, ${order}`)
        const more = upstream.received().join('').slice(arrived)
        if (status !== 200) {
          t.equal(more, '', `${path} arrives nowhere`)
          continue
        }
        t.ok(more.startsWith(`GET ${wire} HTTP/1.1\r\n`), `${path} arrives as it is`)
        const after = await countMatches(gateway.admin)
        const taken = [...after].filter(([id, count]) => count > (before.get(id) ?? 0)).map(([id]) => id)
        t.same(taken, [`row-${patterns.indexOf(match ?? '')}`], `${path}, ${order}`)
      }
    }
  },
)
