import type { RawHeaders } from '../engine/exchange.ts'
import type { Upstream } from '../locate/upstream.ts'

/**
 * What Envoy is to take out of the client's request. Otherwise it lets a client's line pass wherever our answer has
 * none of that name: a forged organization where there is none.
 */
export function nameRemoved(
  pinned: RawHeaders,
  { forwardsCredentials, cookies }: Pick<Upstream, 'forwardsCredentials' | 'cookies'>,
): RawHeaders {
  const ours = ['x-gateway-identity', 'x-organization-id'].filter((name) => !pinned.includes(name))
  const credentials = forwardsCredentials ? [] : ['authorization', 'x-oauth-access-token']
  const names = [...ours, ...credentials, ...(cookies === 'strip' ? ['cookie'] : [])]
  return names.length === 0 ? [] : ['x-envoy-auth-headers-to-remove', names.join(',')]
}
