/** Folders of sources by their own names, called rooms here (`receive` for `gateway/stages/receive`), from which every room may import. */
export const leaves = ['errors', 'fault', 'lib', 'network', 'policy', 'rights']

/**
 * The rooms from which each room may import, beside itself and the leaves. A stage sees earlier stages only.
 * `directory` and `http` stand for their interfaces.
 */
export const rooms: Readonly<Record<string, readonly string[]>> = {
  errors: [],
  fault: [],
  lib: [],
  network: [],
  policy: [],
  rights: [],
  http: [],
  directory: [],
  receive: ['http'],
  route: ['receive'],
  authenticate: ['directory', 'receive'],
  resolve: ['directory', 'receive', 'route', 'authenticate'],
  authorize: ['route', 'authenticate', 'resolve'],
  consult: ['directory', 'route', 'authorize'],
  limit: ['http', 'directory', 'receive', 'route', 'authorize'],
  endpoints: ['http', 'directory', 'authenticate', 'authorize', 'resolve'],
  locate: ['directory', 'http', 'resolve', 'authorize'],
  pin: ['http', 'directory', 'locate', 'authorize'],
  forward: ['http', 'directory', 'receive', 'authorize', 'locate', 'pin'],
  recheck: ['http', 'directory', 'receive', 'route', 'authenticate', 'resolve', 'authorize', 'consult', 'locate'],
  signals: ['http', 'receive', 'authenticate'],
  relay: ['http', 'route', 'locate'],
  observe: ['http', 'directory', 'receive', 'route', 'authenticate', 'resolve', 'locate'],
  admin: ['http', 'receive', 'locate', 'recheck', 'observe', 'console'],
  // It shows what the others say of themselves, and asks them for nothing but plain data.
  console: ['http', 'receive', 'locate', 'recheck', 'observe', 'admin'],
  configuration: ['directory', 'http', 'forward', 'observe', 'pin', 'recheck'],
  // It answers questions about a policy and needs no listener. shadow/ gets only facts that the stages have found.
  analyze: ['directory', 'receive', 'route', 'authenticate', 'resolve', 'authorize', 'observe', 'configuration'],
  reload: ['admin', 'analyze', 'configuration', 'directory', 'http', 'observe', 'pin', 'route'],
  workers: ['admin', 'boot', 'configuration', 'observe', 'recheck'],
  cli: [
    ...[
      'admin',
      'analyze',
      'boot',
      'configuration',
      'console',
      'decision',
      'directory',
      'endpoints',
      'pin',
      'provision',
    ],
    ...['receive', 'resolve', 'workers'],
  ],
  provision: ['cli', 'configuration', 'directory', 'endpoints', 'resolve'],
}

/** Rooms that wire the others, or stand outside the way. They may import all but the rooms that start them. */
export const wiring = ['boot', 'demo']

/** Rooms that may name an implementation, beside those that wire, because they check, watch or run it by itself. */
export const implementers = ['configuration', 'reload', 'cli', 'provision']

/** Rooms that start the gateway, and the only ones that import what wires it. */
export const starters = ['main.ts', 'cli', 'workers', 'demo']

/** Each package has one owner, and jose two: one verifies, one signs. */
export const owners: Readonly<Record<string, readonly string[]>> = {
  undici: ['http'],
  jose: ['authenticate', 'pin'],
  pg: ['directory'],
  postgrator: ['directory'],
  ioredis: ['directory'],
  'lru-cache': ['directory', 'lib'],
  'rate-limiter-flexible': ['limit'],
  yaml: ['policy', 'configuration'],
  ajv: ['policy'],
  'prom-client': ['observe'],
  pino: ['observe'],
  '@opentelemetry/api': ['observe'],
  // main.ts has the program, and cli declares its commands.
  commander: ['main.ts', 'cli', 'provision'],
}
