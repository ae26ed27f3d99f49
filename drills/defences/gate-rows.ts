/** One advisory test of each class, which `npm run test:gate` plays under every column. Each takes seconds. */
export const gateRows = {
  'reading bodies and heads': 'oversize',
  'one request for another': 'request-smuggling',
  'reuse of connections': 'http-proxy-lone-trailer',
  'answers that break': 'http-proxy-upstream-dies-midstream',
  'what an answer may say': 'response-splitting',
  tokens: 'jwt-forgery',
  paths: 'path-confusion',
  tenants: 'tenant-confusion',
  upgrades: 'websocket-smuggling',
  'rights that end while an exchange is open': 'open-exchanges',
  'rights that end before the head is out': 'late-heads',
  'listeners under a crowd': 'crowded-listeners',
} as const

/** These start a gateway for each test, and one of two workers takes three processes. */
export const manyGateways: ReadonlySet<string> = new Set([
  'oversize',
  'http-proxy-upstream-dies-midstream',
  'websocket-smuggling',
  'open-exchanges',
  'late-heads',
])
