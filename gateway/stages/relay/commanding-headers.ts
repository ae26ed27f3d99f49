/**
 * Response headers by which a backend commands a server or content network in front: fetch another target, send a file,
 * cache for all, mark a host as failed. Such a proxy trusts every backend, but behind this gateway some backends belong
 * to tenants. docs/explanation/commanding-headers.md lists which program acts on which name.
 */
const commandingNames: ReadonlySet<string> = new Set([
  'x-replace-session',
  'x-send-file',
  'x-forward',
  'cache-groups',
  'cache-group-invalidation',
  'cf-edge-cache',
  'edge-control',
  'lsc-cookie',
  'x-esi',
  'xkey',
  'x-hashtwo',
  'arr-disable-session-affinity',
  'x-arr-disable-session-affinity',
  'x-compress-hint',
  'x-traffic',
  'proxy-authentication-info',
  'proxy-support',
])

const commandingFamilies = [
  'x-accel-',
  'x-sendfile',
  'x-lighttpd-',
  'x-litespeed-',
  'x-reproxy-',
  'x-archive-',
  'x-rewrite-',
  'x-envoy-',
  'x-gateway-',
  'x-appengine-',
  'x-middleware-',
  'x-varnish-',
  'x-hiawatha-',
  'x-weblogic-',
  '-ws',
  'am-eai-',
  'x-kong-',
  'x-tyk-',
  'surrogate-',
  'cf-int-',
  'cf-cloudflared-',
  'cf-proxy-',
  'fastly-',
  'finagle-',
  'fly-',
  'grip-',
  'l5d-',
  'netlify-',
  'modpagespeed',
  'pagespeed',
] as const

export const mayCommand = (canonical: string): boolean =>
  commandingNames.has(canonical) || commandingFamilies.some((family) => canonical.startsWith(family))
