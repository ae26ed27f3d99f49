import t from 'tap'
import { listClients } from '../../../gateway/listeners/decision/decision.ts'

const identity = ['x-gateway-identity', 'a.b.c']
const organization = ['x-organization-id', '1']

t.test('a header that the gateway does not set is removed from the client’s', async (t) => {
  const removed = (pinned: readonly string[]) => listClients(pinned, { forwardsCredentials: true, cookies: 'forward' })
  t.same(removed([]), ['x-gateway-identity', 'x-organization-id'])
  t.same(removed(identity), ['x-organization-id'])
  t.same(removed([...identity, ...organization]), [])
})

t.test('credentials are removed, unless the upstream wants them', async (t) => {
  const removed = listClients([...identity, ...organization], { forwardsCredentials: false, cookies: 'forward' })
  t.same(removed, ['authorization', 'x-oauth-access-token'])
})
