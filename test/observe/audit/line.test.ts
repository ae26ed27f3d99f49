import fc from 'fast-check'
import t from 'tap'
import { GatewayError } from '../../../gateway/base/errors/gateway-error.ts'
import {
  type AuditedDecision,
  type AuditedFailure,
  composeAuditLine,
  composeFailureLine,
  lineLimitBytes,
} from '../../../gateway/observe/audit/line.ts'
import type { Principal } from '../../../gateway/stages/authenticate/principal.ts'

const robot: Principal = {
  user: {
    id: 8,
    email: 'robot@example.org',
    emailVerified: true,
    username: null,
    firstName: null,
    lastName: null,
    fullName: null,
    userType: 'client-managed',
    currentOrganizationId: null,
    roles: [],
  },
  credential: {
    kind: 'api-token',
    id: 12,
    name: 'ci',
    abilities: ['datasets:read'],
    lastUsedAt: null,
    expiresAt: null,
  },
}

const decision: AuditedDecision = {
  time: new Date('2031-02-03T04:05:06.789Z'),
  requestId: 'request-1',
  listener: 'public',
  outcome: 'refused',
  status: 403,
  error: new GatewayError('role_too_low'),
  principal: robot,
  organization: { id: 1, slug: 'acme', accountType: 'enterprise', role: 'org-member' },
  route: 'datasets.write',
  method: 'POST',
  path: '/datasets',
  clientAddress: '192.0.2.7',
}

t.test('a line says who asked for what, and what became of it', async (t) => {
  t.same(JSON.parse(composeAuditLine(decision, 'host/4711')), {
    audit: 'decision',
    time: '2031-02-03T04:05:06.789Z',
    requestId: 'request-1',
    listener: 'public',
    outcome: 'refused',
    status: 403,
    reason: 'role_insufficient',
    cause: 'role_too_low',
    check: 'role',
    subject: { id: 8, kind: 'client-managed' },
    credential: { kind: 'api-token', id: 12 },
    tokenId: null,
    organizationId: 1,
    route: 'datasets.write',
    method: 'POST',
    path: '/datasets',
    clientAddress: '192.0.2.7',
    replica: 'host/4711',
  })
})

t.test('an unknown value is null, so that every line has every field', async (t) => {
  const unknown: AuditedDecision = {
    ...decision,
    status: undefined,
    error: undefined,
    principal: undefined,
    organization: undefined,
    route: undefined,
    method: undefined,
    path: undefined,
  }
  const line = JSON.parse(composeAuditLine(unknown, 'host/4711'))
  t.same(Object.keys(line), Object.keys(JSON.parse(composeAuditLine(decision, 'host/4711'))))
  for (const field of [
    'status',
    'reason',
    'cause',
    'check',
    'subject',
    'credential',
    'tokenId',
    'organizationId',
    'route',
    'method',
    'path',
  ])
    t.equal(line[field], null, field)
})

t.test('an OAuth credential has no id', async (t) => {
  const principal: Principal = {
    user: { ...robot.user, userType: 'human' },
    credential: { kind: 'oauth', expiresAt: new Date(0) },
  }
  t.match(JSON.parse(composeAuditLine({ ...decision, principal }, 'r')), {
    subject: { id: 8, kind: 'human' },
    credential: { kind: 'oauth', id: null },
  })
})

/** Values that a client may try, and more. */
const hostile = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 5_000 }),
  fc.stringMatching(/^[\r\n\t"\\{}:,\0\u0085\u2028\u2029\ud800\uffff\x7f\x9b]{0,5000}$/),
  fc.constantFrom(
    '"'.repeat(10_000),
    '\u2028'.repeat(10_000),
    `/${'x'.repeat(10_000)}`,
    '\r\n{"audit":"decision"}\r\n',
  ),
)

t.test('a line is one line of visible ASCII within its limit, and JSON, whatever a client sent', async (t) => {
  fc.assert(
    fc.property(hostile, hostile, hostile, (method, path, clientAddress) => {
      const line = composeAuditLine({ ...decision, method, path, clientAddress }, 'r')
      if (!/^\{[\x20-\x7e]*\}\n$/.test(line)) return false
      if (line.length > lineLimitBytes) return false
      const parsed = JSON.parse(line)
      return (
        path.startsWith(parsed.path) &&
        method.startsWith(parsed.method) &&
        (parsed.isTruncated === true) === (parsed.path !== path || parsed.method !== method)
      )
    }),
    { numRuns: 2_000 },
  )
  t.pass('2,000 tries')
})

const failure: AuditedFailure = {
  time: new Date('2031-02-03T04:05:06.789Z'),
  requestId: 'request-1',
  listener: 'public',
  status: 503,
  reason: 'upstream_unavailable',
  cause: 'upstream_unreachable',
  userId: 8,
  credential: 'oauth',
  organizationId: 1,
  route: 'datasets.list',
  upstream: 'platform',
  method: 'GET',
  path: '/datasets',
  clientAddress: '192.0.2.7',
  durationMs: 12,
}

t.test('the line of a failure is one of visible ASCII within its limit too', async (t) => {
  fc.assert(
    fc.property(hostile, hostile, hostile, hostile, (method, path, clientAddress, userId) => {
      const line = composeFailureLine({ ...failure, method, path, clientAddress, userId }, 'r')
      if (!/^\{[\x20-\x7e]*\}\n$/.test(line) || line.length > lineLimitBytes) return false
      const { audit, cause, path: told } = JSON.parse(line)
      return audit === 'failure' && cause === 'upstream_unreachable' && path.startsWith(told)
    }),
    { numRuns: 2_000 },
  )
  const line = composeFailureLine({ ...failure, path: '/oat_MTI.c2VjcmV0c2VjcmV0' }, 'r')
  t.notMatch(line, /oat_/)
  const unknown = { userId: undefined, credential: undefined, organizationId: undefined, upstream: undefined }
  t.match(JSON.parse(composeFailureLine({ ...failure, ...unknown }, 'r')), {
    ...{ subject: null, credential: null, organizationId: null, upstream: null, status: 503, durationMs: 12 },
  })
})

t.test('the longest fields together fit into a line', async (t) => {
  const long: AuditedDecision = {
    ...decision,
    requestId: 'x'.repeat(128),
    route: 'r'.repeat(63),
    method: '\u2028'.repeat(1_000),
    path: '"'.repeat(10_000),
    clientAddress: '\u2028'.repeat(1_000),
    organization: { id: 2_147_483_647, slug: '', accountType: 'team', role: '' },
  }
  const line = composeAuditLine(long, `${'h'.repeat(255)}/4194304`)
  t.ok(line.length <= lineLimitBytes, `${line.length} bytes`)
  t.equal(JSON.parse(line).path.length, 1_024)
  const escaped = '\u2028'.repeat(10_000)
  const { requestId, route, method, clientAddress } = long
  const failed = { ...failure, requestId, route, method, clientAddress, path: escaped, userId: escaped }
  const asserted: Principal = { ...robot, user: { ...robot.user, id: undefined, name: escaped } }
  for (const text of [
    composeFailureLine({ ...failed, upstream: 'u'.repeat(63) }, `${'h'.repeat(255)}/4194304`),
    composeAuditLine({ ...long, path: escaped, principal: asserted }, `${'h'.repeat(255)}/4194304`),
  ]) {
    t.ok(text.length <= lineLimitBytes, `${text.length} bytes`)
    t.match(JSON.parse(text), { isTruncated: true })
  }
})

t.test('a credential that was put into a path is not in the line, not even in half', async (t) => {
  const token = `oat_MTI.${'a'.repeat(60)}`
  for (const path of [`/x/${token}`, `/${'x'.repeat(1_010)}/${token}`]) {
    const line = composeAuditLine({ ...decision, path }, 'r')
    t.notMatch(line, /oat_/)
    t.match(JSON.parse(line).path, /\[redact/)
  }
})
