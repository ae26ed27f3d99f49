/**
 * Answer headers by which a server or content network in front lets its backend command it: fetch another target, send a
 * file, cache for all, mark a host as failed. To such a proxy every backend is its operator's; behind this gateway some
 * are a tenant's. The table in SECURITY.md says which program acts on which name.
 */
const commandingNames: ReadonlySet<string> = new Set([
  // Another target, or a file.
  'x-replace-session',
  'x-send-file',
  // Caches, and includes of other targets.
  'cache-groups',
  'cache-group-invalidation',
  'cf-edge-cache',
  'edge-control',
  'lsc-cookie',
  'x-esi',
  'xkey',
  // Sessions, pace and form of what is sent.
  'arr-disable-session-affinity',
  'x-arr-disable-session-affinity',
  'x-compress-hint',
  'x-traffic',
  // Between proxies (RFC 7615); one that is not the next hop.
  'proxy-authentication-info',
  'proxy-support',
])

/** Beginnings of such names. */
const commandingFamilies = [
  'x-accel-',
  'x-sendfile',
  'x-lighttpd-',
  'x-litespeed-',
  'x-reproxy-',
  'x-archive-',
  'x-envoy-',
  'x-gateway-',
  'x-appengine-',
  'x-middleware-',
  'x-varnish-',
  'x-hiawatha-',
  'surrogate-',
  'fastly-',
  'fly-',
  'grip-',
  'l5d-',
  'netlify-',
  'modpagespeed',
  'pagespeed',
] as const

/** Whether a header, by its name in lower case with hyphens, could command a proxy in front. */
export const mayCommand = (canonical: string): boolean =>
  commandingNames.has(canonical) || commandingFamilies.some((family) => canonical.startsWith(family))
