import t from 'tap'
import { lintPolicy } from '../../gateway/analyze/lint.ts'
import { parseTable } from '../support/policy-table.ts'

const owner = 'require: { role: org-owner, ability: things:read }'
const member = 'require: { role: org-member, ability: things:read }'
const rateLimits = '{ few: { requests: 1, seconds: 1 }, each: { requests: 1, seconds: 1, by: route } }'

const warn = (...routes: readonly string[]): readonly string[] =>
  lintPolicy(parseTable({ routes, rateLimits })).flatMap(({ source, message }) =>
    /is avoided/.test(message) ? `${source.split(':').at(-1)} ${message}` : [],
  )

const a = 'host: a.example'
const b = 'host: b.example'

t.test('a route that another host name avoids is warned of', async (t) => {
  const cases: readonly (readonly [name: string, said: RegExp, ...routes: string[]])[] = [
    [
      'by any other',
      /"r0" is avoided by a host that no route names: there "r1" leads/,
      `/x ${a} ${owner}`,
      `/x ${member}`,
    ],
    ['by another', /"r0" is avoided by host "b\.example": there "r1"/, `/x ${a} ${owner}`, `/x ${b} ${member}`],
    ['though no host is named', /"r0" is avoided by host "b\.example"/, `/x ${owner}`, `/x ${b} ${member}`],
    [
      'by a wider pattern',
      /"r0" .* host "b\.example": there "r1" leads \/x\/y to/,
      `/x/y ${owner}`,
      `/* ${b} ${member}`,
    ],
    ['in a part', /"r0" .* "r1" leads \/x\/y to/, `/x/* ${a} ${owner}`, `/x/y ${b} ${member}`, `/x/* ${b} ${owner}`],
    ['by a method', /"r0" is avoided/, `/x ${a} ${owner}`, `/x PUT ${b} ${member}`],
    ['without a credential', /and admits callers whom "r0" refuses$/, `/x ${a} ${member}`, '/x access: public'],
    [
      'by a wildcard',
      /"r0" .* host "\*\.a\.example": there "r1"/,
      `/x ${a} ${owner}`,
      `/x host: *.a.example ${member}`,
    ],
    [
      'after the same rewriting',
      /"r0" is/,
      `/p/x ${a} stripPrefix: /p ${owner}`,
      `/p/x ${b} stripPrefix: /p ${member}`,
    ],
    ['at the endpoint of the gateway', /"r0" is/, `/me ${a} answer: users.me ${owner}`, '/me answer: users.me'],
    [
      'at a cluster',
      /"r0" is/,
      `/c/:id/* ${a} cluster: { param: id } ${owner}`,
      `/c/:it/* cluster: { param: it } ${member}`,
    ],
    ['and its budget', /, and counts them apart$/, `/x ${a} ${member} rateLimit: few`, `/x ${member}`],
    [
      'and its own budget',
      /, and counts them apart$/,
      `/x ${a} ${member} rateLimit: each`,
      `/x ${member} rateLimit: each`,
    ],
  ]
  for (const [name, said, ...routes] of cases) t.match(warn(...routes), [said], name)
  const [only, ...others] = warn(`/x/* ${a} ${owner}`, `/x/* ${b} ${member}`, `/x/y ${b} ${member}`)
  t.match(only, /^11 route "r0" .* "r2"/, 'once for each pair, at the row that is avoided')
  t.match(others, [/^11 route "r0" .* "r1"/])
  const other = 'require: { role: org-member, ability: things:run }'
  t.match(warn(`/x ${a} ${member}`, `/x ${other}`).toSorted(), [/"r0" is/, /"r1" is/], 'each by callers of the other')
})

t.test('a route that no host name avoids is not warned of', async (t) => {
  const cases: readonly (readonly [name: string, ...routes: string[]])[] = [
    ['the same elsewhere', `/x ${a} ${owner}`, `/x ${b} ${owner}`, `/x ${owner}`],
    ['a lone public route', `/x ${a} access: public`, `/y ${b} ${owner}`],
    [
      'by the header as by a label',
      `/x host: *.a.example organization: { hostLabel: slug } ${member}`,
      `/x ${a} ${member}`,
    ],
    ['no route elsewhere', `/x ${a} ${owner}`, `/y ${b} ${member}`],
    ['no host at all', `/x/* ${member}`, `/x/y ${owner}`],
    ['another upstream', `/x ${a} ${owner}`, `/x ${b} upstream: v ${member}`],
    ['another method', `/x GET ${a} ${owner}`, `/x POST ${b} ${member}`],
    ['another rewriting', `/p/x ${a} stripPrefix: /p ${owner}`, `/p/x ${b} ${member}`],
    ['another part of the path', `/x/* ${a} ${owner}`, `/:a/y ${b} ${member}`, `/x/* ${b} ${owner}`],
    ['another endpoint', `/me ${a} answer: users.me ${owner}`, `/me ${b} answer: users.abilities`],
    ['the same budget', `/x ${a} ${member} rateLimit: few`, `/x ${b} ${member} rateLimit: few`],
    ['a budget only elsewhere', `/x ${a} ${owner}`, `/y ${member} rateLimit: few`],
  ]
  for (const [name, ...routes] of cases) t.same(warn(...routes), [], name)
})
