import { writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { loadConfiguration } from '../../gateway/configuration/configuration.ts'
import { countWorkers } from '../../gateway/configuration/process-limits.ts'
import { ConfigurationError } from '../../gateway/policy/configuration-error.ts'

const variable = (text: string): string => `\${${text}}`

const minimal = [
  'database: { url: "postgres://user@db/name" }',
  'issuers: [{ issuer: "https://login.example", audience: api }]',
  'identity: { keys: [pem] }',
  'upstreams: { platform: { url: "http://platform:3333" } }',
]

type Environment = Readonly<Record<string, string>>

function load(t: Test, lines: readonly string[], environment: Environment = {}, files: Environment = {}) {
  const directory = t.testdir(files)
  const file = join(directory, 'gateway.yaml')
  writeFileSync(file, lines.join('\n'))
  return { directory, configuration: () => loadConfiguration(file, environment) }
}

/** The mistakes of a configuration file. */
function problemsIn(load: () => unknown): ConfigurationError['problems'] {
  try {
    load()
    return []
  } catch (error) {
    if (error instanceof ConfigurationError) return error.problems
    throw error
  }
}

const instead = (line: number, text: string): readonly string[] =>
  minimal.map((old, index) => (index === line ? text : old))

t.test('the defaults are the contract’s', async (t) => {
  const { directory, configuration } = load(t, minimal)
  t.match(configuration(), {
    workers: 1,
    listeners: {
      public: { host: '0.0.0.0', port: 8080 },
      decision: { host: '127.0.0.1', port: 8081 },
      admin: { host: '127.0.0.1', port: 9090 },
    },
    issuers: [{ clockToleranceSeconds: Number, linkVerifiedEmail: false, acceptIdTokens: false }],
    jwks: { refreshMs: 300_000, maxStaleMs: 86_400_000 },
    identity: { issuer: 'sallyport', algorithm: 'EdDSA', publishOnPublicListener: false },
    upstreams: { platform: { credentials: 'strip', bind: false, preserveHost: false } },
    policies: { directory: join(directory, '..', 'policies') },
    cluster: { staleAfterMs: 60_000, networks: { allow: [], deny: [] }, cookies: 'strip', cache: 'private' },
    trustedProxies: [],
    limits: {
      headerBytes: 24 * 1024,
      targetBytes: 8 * 1024,
      bodyBytes: 100 * 1024 * 1024,
      minBodyBytesPerSecond: 100,
      minResponseBytesPerSecond: 100,
    },
    timeouts: {
      headersMs: 20_000,
      bodyIdleMs: 30_000,
      clientIdleMs: 20_000,
      connectMs: 2_000,
      idleMs: 60_000,
      streamIdleMs: 120_000,
      keepAliveMs: 15_000,
    },
    streams: { endAtExpiry: 'websocket', maxLifeMs: 3_600_000, onUnknown: 'keep', unknownMs: 300_000 },
    drain: { delayMs: 5_000, timeoutMs: 30_000 },
    log: { level: 'info', bufferBytes: 4 * 1024 * 1024 },
    audit: { sink: 'stdout', onFull: 'drop', bufferBytes: 4 * 1024 * 1024, waitMs: 2_000 },
  })
  t.ok((configuration().issuers[0]?.clockToleranceSeconds ?? 61) <= 60)
  t.equal(configuration().cors, undefined, 'CORS is off')
  t.equal(configuration().authentication.unknownTokens, undefined, 'guesses are not counted')
})

t.test('a variable is replaced, a number among text becomes a number', async (t) => {
  const { configuration } = load(
    t,
    [
      ...instead(0, `database: { url: "${variable('URL')}" }`),
      `listeners: { public: { port: "${variable('PORT')}" } }`,
    ],
    { URL: 'postgres://user@elsewhere/x', PORT: '8888' },
  )
  t.match(configuration(), {
    database: { url: 'postgres://user@elsewhere/x' },
    listeners: { public: { host: '0.0.0.0', port: 8888 } },
  })
})

t.test('the audit goes to a stream by its name, or to a path, seen from the file', async (t) => {
  const read = (sink: string) => load(t, [...minimal, `audit: { sink: ${sink} }`])
  const sinkOf = (sink: string): string => read(sink).configuration().audit.sink
  for (const name of ['stdout', 'stderr', 'off']) t.equal(sinkOf(name), name)
  t.equal(sinkOf('/var/log/audit.jsonl'), '/var/log/audit.jsonl')
  const { directory, configuration } = read('./audit.jsonl')
  t.equal(configuration().audit.sink, join(directory, 'audit.jsonl'))
  // A slip of the pen must not become a file's name.
  for (const name of ['stdot', 'true', '""']) t.match(problemsIn(read(name).configuration), [{ line: 5 }], name)
})

t.test('workers are a number, or one for each processor', async (t) => {
  const count = (text: string): number => countWorkers(load(t, [...minimal, `workers: ${text}`]).configuration())
  t.equal(count('3'), 3)
  t.equal(count('"4"'), 4)
  t.equal(count('auto'), availableParallelism())
  for (const text of ['0', '-1', '1.5', 'many', '257', '""']) {
    const problems = problemsIn(load(t, [...minimal, `workers: ${text}`]).configuration)
    t.match(problems, [{ line: 5, column: 10, message: /^workers must be / }], text)
    t.equal(problems.length, 1)
  }
})

const expansions: readonly (readonly [text: string, environment: Environment, value: string])[] = [
  [`a-${variable('X')}-b`, { X: '1' }, 'a-1-b'],
  [`${variable('X')}${variable('Y')}`, { X: '1', Y: '2' }, '12'],
  [variable('X:-other'), {}, 'other'],
  [variable('X:-other'), { X: 'set' }, 'set'],
  [variable('X:-other'), { X: '' }, 'other'],
  [variable(`X:-${variable('Y')}`), { Y: 'nested' }, 'nested'],
  [variable(`X:-${variable('Y:-deep')}`), {}, 'deep'],
  [variable('X'), { X: variable('Y'), Y: 'no' }, variable('Y')],
  [variable('X'), { X: '$&$1`' }, '$&$1`'],
  ['$X {X} $', {}, '$X {X} $'],
]
t.test('variables may have defaults and nest, and a value is never read again', async (t) => {
  for (const [text, environment, value] of expansions) {
    const { configuration } = load(t, instead(2, `identity: { keys: ['${text}'] }`), environment)
    t.same(configuration().identity.keys, [value], text)
  }
})

t.test('file: is that file’s content, relative to the configuration, without its last line feed', async (t) => {
  const { configuration } = load(
    t,
    instead(2, `identity: { keys: ["file:one.pem", "file:${variable('SECOND')}"] }`),
    { SECOND: 'two.pem' },
    { 'one.pem': 'first\n', 'two.pem': 'second\r\nline\n\n' },
  )
  t.same(configuration().identity.keys, ['first', 'second\r\nline\n'])
})

t.test('each identity key knows the file from which it came, wherever its name came from', async (t) => {
  const { directory, configuration } = load(
    t,
    instead(2, `identity: { keys: ["file:one.pem", inline, "${variable('THIRD')}"] }`),
    { THIRD: 'file:two.pem' },
    { 'one.pem': 'first', 'two.pem': 'file:one.pem' },
  )
  const { keys, keyFiles } = configuration().identity
  t.same(keys, ['first', 'inline', 'file:one.pem'])
  t.same(keyFiles, [join(directory, 'one.pem'), undefined, join(directory, 'two.pem')])
})

t.test('the contents of a file are not interpreted', async (t) => {
  const content = `${variable('X')} file:x`
  const { configuration } = load(t, instead(2, 'identity: { keys: ["file:a"] }'), {}, { a: content })
  t.same(configuration().identity.keys, [content])
})

const problems: Readonly<Record<string, readonly [lines: readonly string[], problem: RegExp]>> = {
  'an unknown key': [[...minimal, 'frobnicate: 1'], /^5:1 the file does not know "frobnicate"; use one of workers, /],
  'a key that has another name now': [
    [...minimal, 'redis:', '  hearsEveryWriter: true'],
    /^6:\d+ redis does not know "hearsEveryWriter"; it is called "allWritersPublish" now$/,
  ],
  'a limit that has another name now': [
    [...minimal, 'limits:', '  bodyBytesPerSecond: 1'],
    /^6:\d+ limits does not know "bodyBytesPerSecond"; it is called "minBodyBytesPerSecond" now$/,
  ],
  'a second limit that has another name now': [
    [...minimal, 'limits:', '  answerBytesPerSecond: 1'],
    /^6:\d+ limits does not know "answerBytesPerSecond"; it is called "minResponseBytesPerSecond" now$/,
  ],
  'an old name where it never stood': [
    [...minimal, 'limits:', '  onTrouble: open'],
    /^6:\d+ limits does not know "onTrouble"; use one of /,
  ],
  'an unknown key inside': [[...minimal, 'limits:', '  bodySize: 1'], /^6:\d+ limits does not know "bodySize"; /],
  'a value out of range': [[...minimal, 'drain: { delayMs: -1 }'], /^5:19 drain\.delayMs /],
  'a tolerance beyond 60 s': [
    instead(1, 'issuers: [{ issuer: "https://i", audience: a, clockToleranceSeconds: 61 }]'),
    /^2:\d+ issuers\.0\.clockToleranceSeconds /,
  ],
  'another algorithm': [
    instead(2, 'identity: { keys: [pem], algorithm: HS256 }'),
    /^3:\d+ identity\.algorithm .*EdDSA, ES256/,
  ],
  'no issuer at all': [instead(1, 'issuers: []'), /^2:10 issuers /],
  'no keys at all': [instead(2, 'identity: { keys: [] }'), /^3:19 identity\.keys /],
  'an upstream with a path of dots': [
    instead(3, 'upstreams: { platform: { url: "http://h/base/.." } }'),
    /^4:\d+ upstreams\.platform\.url /,
  ],
  'an upstream that is no HTTP': [
    instead(3, 'upstreams: { platform: { url: "ftp://h" } }'),
    /^4:\d+ upstreams\.platform\.url /,
  ],
  'an upstream with a user': [
    instead(3, 'upstreams: { platform: { url: "http://u@h" } }'),
    /^4:\d+ upstreams\.platform\.url /,
  ],
  'a missing section': [minimal.slice(0, 3), /^3:\d+ the file lacks "upstreams"; add it$/],
  'a missing variable': [instead(0, `database: { url: "${variable('NO_SUCH')}" }`), /^1:18 .*NO_SUCH is not set/],
  'a malformed variable': [instead(0, `database: { url: "${variable('NO-SUCH')}" }`), /^1:18 has a malformed variable/],
  'a missing file': [
    instead(2, 'identity: { keys: ["file:no-such.pem"] }'),
    /^3:20 file .*no-such\.pem cannot be read: ENOENT /,
  ],
  'a key given twice': [[...minimal, 'drain: {}', 'drain: {}'], /^6:1 "drain" stands twice/],
  'an anchor and its alias': [[...minimal, 'drain: &d { delayMs: 1 }', 'cluster: *d'], /^\d+:\d+ .*alias/],
  'an unknown tag': [[...minimal, 'drain: !secret { delayMs: 1 }'], /^5:\d+ .*tag/],
  'two documents': [[...minimal, '---', 'drain: {}'], /^\d+:\d+ .*document/],
  'broken YAML': [[...minimal, 'drain: ['], /^\d+:\d+ /],
}
for (const [what, [lines, problem]] of Object.entries(problems))
  t.test(`${what} is a problem with its line and column`, async (t) => {
    const [first] = problemsIn(load(t, lines).configuration)
    t.match(`${first?.line}:${first?.column} ${first?.message}`, problem)
  })

t.test('all problems are told at once', async (t) => {
  const { configuration } = load(t, [...minimal, 'drain: { delayMs: -1, timeoutMs: -1 }', 'log: { level: loud }'])
  t.match(problemsIn(configuration), [{ line: 5 }, { line: 5 }, { line: 6 }])
})

t.test('no problem quotes a value', async (t) => {
  const secret = 'hunter2'
  for (const [lines, environment] of [
    [instead(0, `database: { url: "${variable('URL')}" }`), { URL: `mysql://user:${secret}@db` }],
    [instead(0, `database: { url: "mysql://user:${secret}@db" }`), {}],
    [instead(0, `database: { url: ${secret}: [ }`), {}],
    [instead(3, `upstreams: { platform: { url: "ftp://user:${secret}@h" } }`), {}],
  ] as const) {
    const { configuration } = load(t, lines, environment)
    const found = problemsIn(configuration)
    t.ok(found.length > 0)
    t.notMatch(JSON.stringify(found), secret)
  }
})

t.test('a configuration that is not there is a problem of its own', async (t) => {
  const found = problemsIn(() => loadConfiguration(join(t.testdir({}), 'no-such.yaml'), {}))
  t.match(found, [{ line: undefined, message: /^cannot be read: ENOENT / }])
})

t.test('Redis is in one place, and only one server is believed alone', async (t) => {
  const messagesOf = (redis: string): readonly string[] =>
    problemsIn(load(t, [...minimal, `redis: ${redis}`]).configuration).map(({ message }) => message)
  const sentinels = 'sentinels: { name: main, nodes: ["a:26379", "[::1]:26379"] }'
  t.same(messagesOf(`{ url: "redis://a", ${sentinels} }`), [])
  t.same(messagesOf('{ url: "redis://a", cluster: {} }'), [])
  t.match(messagesOf(`{ url: "redis://a", cluster: {}, ${sentinels} }`), [/keep one of them/])
  t.match(messagesOf(`{ ${sentinels} }`), [/redis\.sentinels needs redis\.url too/])
  t.match(messagesOf('{ url: "redis://a", cluster: {}, allWritersPublish: true }'), [
    /allWritersPublish cannot be true/,
  ])
  t.equal(messagesOf('{ url: "redis://a", cluster: { nodes: ["redis://a"] } }').length, 1)
})
