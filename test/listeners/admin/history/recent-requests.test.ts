import t from 'tap'
import {
  listLimit,
  mergeRequests,
  type RecentRequest,
  RecentRequests,
  type RequestFilter,
} from '../../../../gateway/listeners/admin/history/recent-requests.ts'

const everything: RequestFilter = { kind: '', reason: '', route: '', upstream: '', text: '', requestId: '' }

const refusal: RecentRequest = {
  kind: 'refusal',
  timeMs: 1_000,
  requestId: 'a-request',
  listener: 'public',
  status: 401,
  reason: 'unauthenticated',
  cause: 'token_expired',
  tokenId: 12,
  method: 'GET',
  path: '/x',
  route: 'r',
  upstream: undefined,
  userId: undefined,
  organizationId: undefined,
  clientAddress: '192.0.2.1',
  durationMs: 1,
}

const failure: RecentRequest = {
  ...refusal,
  kind: 'failure',
  status: 500,
  reason: 'upstream_500',
  cause: 'upstream_500',
  tokenId: undefined,
  requestId: 'failed',
}

t.test('10,000 anonymous 401s push neither the one 5xx nor another address out', async (t) => {
  for (const addressOf of [() => '192.0.2.1', (index: number) => `10.0.${index >> 8}.${index & 255}`]) {
    const recent = new RecentRequests()
    recent.remember(failure)
    recent.remember({ ...refusal, clientAddress: '203.0.113.9', requestId: 'another' })
    for (let index = 0; index < 10_000; index++)
      recent.remember({ ...refusal, timeMs: 2_000 + index, clientAddress: addressOf(index), path: `/${index}` })
    const ids = recent.read(everything).map(({ requestId }) => requestId)
    t.ok(ids.includes('failed'))
    if (addressOf(1) === addressOf(2)) t.ok(ids.includes('another'))
    t.ok(ids.length <= listLimit)
  }
})

t.test('a full group takes one request of an address in 10 ms, and each of another address', async (t) => {
  const recent = new RecentRequests()
  for (let index = 0; index < 24; index++) {
    t.ok(recent.wants(refusal), 'there is room')
    recent.remember(refusal)
  }
  t.notOk(recent.wants({ ...refusal, timeMs: 1_009 }))
  t.ok(recent.wants({ ...refusal, timeMs: 1_010 }))
  t.ok(recent.wants({ ...refusal, clientAddress: '192.0.2.2' }))
  t.ok(recent.wants({ ...refusal, cause: 'token_unknown' }))
  t.ok(recent.wants({ ...failure, timeMs: 1_000 }))
})

t.test('10,000 failures of one route leave the one of another route', async (t) => {
  const recent = new RecentRequests()
  recent.remember({ ...failure, route: 'quiet' })
  for (let index = 0; index < 10_000; index++) recent.remember({ ...failure, route: 'loud', timeMs: 2_000 + index })
  t.ok(recent.read(everything).some(({ route }) => route === 'quiet'))
})

t.test('paths that a client makes up get no room of their own', async (t) => {
  const recent = new RecentRequests()
  recent.remember(failure)
  for (let index = 0; index < 1_000; index++)
    recent.remember({
      ...refusal,
      reason: 'route_not_found',
      cause: 'route_not_found',
      route: `r${index}`,
      timeMs: 2_000 + index,
    })
  t.ok(recent.read({ ...everything, kind: 'refusal' }).length < 30)
  t.ok(recent.read({ ...everything, kind: 'failure' }).length === 1)
})

t.test('requests are found by kind, cause, route, words and id, newest first', async (t) => {
  const recent = new RecentRequests()
  recent.remember(refusal)
  recent.remember({ ...failure, timeMs: 3_000, userId: 7, route: 'other', upstream: 'u' })
  recent.remember({ ...failure, kind: 'slow', reason: 'slow_upstream', timeMs: 2_000, requestId: 'late' })
  const find = (filter: Partial<RequestFilter>) =>
    recent.read({ ...everything, ...filter }).map(({ requestId }) => requestId)
  t.same(find({}), ['failed', 'late', 'a-request'])
  t.same(find({ kind: 'slow' }), ['late'])
  t.same(find({ reason: 'unauthenticated' }), ['a-request'])
  t.same(find({ reason: 'token_expired' }), ['a-request'])
  t.same(find({ text: 'token:12' }), ['a-request'])
  t.same(find({ route: 'other' }), ['failed'])
  t.same(find({ upstream: 'u' }), ['failed'])
  t.same(find({ text: 'USER:7 /x' }), ['failed'])
  t.same(find({ text: '401 192.0.2' }), ['a-request'])
  t.same(find({ requestId: 'late' }), ['late'])
  t.same(find({ requestId: 'lat' }), [])
})

t.test('credentials in a path stay out, and nothing is longer than a page can take', async (t) => {
  const recent = new RecentRequests()
  const token = 'oat_MTI.c2VjcmV0LXNlY3JldC1zZWNyZXQ'
  const jwt = 'eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIn0.c2ln'
  recent.remember({ ...refusal, timeMs: 1, path: `/x/${token}/y` })
  // The JWT lies across the place where the path is cut.
  recent.remember({ ...refusal, timeMs: 2, path: `/${'p'.repeat(235)}/${jwt}` })
  const large = { path: `/${'q'.repeat(9_000)}`, method: 'M'.repeat(9_000), requestId: 'r'.repeat(9_000) }
  recent.remember({ ...refusal, ...large, timeMs: 3, clientAddress: 'a'.repeat(9_000) })
  const [long, across, inside] = recent.read(everything)
  t.equal(inside?.path, '/x/[redacted]/y')
  t.notMatch(JSON.stringify(across), /eyJ/)
  t.ok(JSON.stringify(long).length < 1_024)
})

t.test('the newest requests of all processes are kept, as many as one process keeps', async (t) => {
  const at = (timeMs: number): RecentRequest => ({ ...refusal, timeMs })
  const numbers = Array.from({ length: listLimit }, (_, index) => index)
  const merged = mergeRequests([numbers.map((number) => at(number * 2)), numbers.map((number) => at(number * 2 + 1))])
  t.equal(merged.length, listLimit)
  t.equal(merged[0]?.timeMs, listLimit * 2 - 1)
  t.equal(merged.at(-1)?.timeMs, listLimit)
})
