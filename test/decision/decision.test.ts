import t from 'tap'
import { nameRemoved } from '../../gateway/decision/decision.ts'

const identity = ['x-gateway-identity', 'a.b.c']
const organization = ['x-organization-id', '1']

t.test('a header that the gateway does not set is removed from the client’s', async (t) => {
  const removed = (pinned: readonly string[]) => nameRemoved(pinned, { forwardsCredentials: true, cookies: 'forward' })
  t.same(removed([]), ['x-envoy-auth-headers-to-remove', 'x-gateway-identity,x-organization-id'])
  t.same(removed(identity), ['x-envoy-auth-headers-to-remove', 'x-organization-id'])
  t.same(removed([...identity, ...organization]), [])
})

t.test('credentials are removed, unless the upstream wants them', async (t) => {
  const removed = nameRemoved([...identity, ...organization], { forwardsCredentials: false, cookies: 'forward' })
  t.same(removed, ['x-envoy-auth-headers-to-remove', 'authorization,x-oauth-access-token'])
})
