import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { call, type JsonValue } from '../support/client.ts'
import { openRoute, startRawUpstream, startTestGateway, type TestGateway, until } from '../support/gateway.ts'
import { type Replica, startReplica } from '../support/replicas.ts'
import { testVectors } from '../support/vectors.ts'

/** Between two requests of a load, lest the tests beside it have no processor left. */
const restMs = 10

type Routes = readonly Readonly<Record<string, unknown>>[]

const open = (path: string) => ({ ...openRoute, id: path.replace(/\W+/g, '.').slice(1), match: { path } })
const refused = (path: string) => ({ ...open(path), access: 'authenticated' })
const tableOf = (routes: Routes): string => JSON.stringify({ routes })

const startUpstream = (t: Test) =>
  startRawUpstream(t, (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nseen'))

const folderOf = ({ keyFile }: TestGateway): string => join(dirname(keyFile), 'policies')

/** Written beside and renamed over, as careful operators and editors do. */
function replace(folder: string, name: string, text: string): void {
  writeFileSync(join(folder, `.${name}.new`), text)
  renameSync(join(folder, `.${name}.new`), join(folder, name))
}

async function start(t: Test, routes: Routes) {
  const upstream = await startUpstream(t)
  const gateway = await startTestGateway(t, { routes, upstreams: { platform: { url: upstream.url } } })
  const status = async (path: string): Promise<number> => (await call(gateway.public, { path })).status
  return { gateway, folder: folderOf(gateway), status, metric: (name: string) => readMetric(gateway.admin, name) }
}

async function readMetric(admin: string, name: string): Promise<number> {
  const { text } = await call(admin, { path: '/metrics' })
  const line = text.split('\n').find((line) => line.startsWith(`${name} `))
  return Number(line?.split(' ')[1])
}

t.test('a changed table is in force within a second, whole', async (t) => {
  const { folder, status } = await start(t, [open('/a')])
  t.same([await status('/a'), await status('/b')], [200, 404])
  replace(folder, 'routes.yaml', tableOf([refused('/a'), open('/b')]))
  const changedMs = performance.now()
  await until(async () => (await status('/b')) === 200, 'the new table')
  t.comment(`${Math.round(performance.now() - changedMs)} ms`)
  t.equal(await status('/a'), 401)
})

t.test('an added file belongs to the policy at once; a removed one is waited for', async (t) => {
  const { folder, status, metric } = await start(t, [open('/a')])
  replace(folder, 'more.yaml', tableOf([open('/b')]))
  await until(async () => (await status('/b')) === 200, 'the added file')
  t.equal(await status('/a'), 200)
  rmSync(join(folder, 'more.yaml'))
  await until(async () => (await metric('sallyport_policy_held')) === 1, 'the gauge')
  t.equal(await status('/b'), 200)
})

t.test('a ConfigMap whose symbolic link is replaced is followed', async (t) => {
  const { folder, status } = await start(t, [open('/old')])
  rmSync(join(folder, 'routes.yaml'))
  for (const version of ['1', '2']) {
    mkdirSync(join(folder, `..v${version}`))
    writeFileSync(join(folder, `..v${version}`, 'routes.yaml'), tableOf([open(`/v${version}`)]))
  }
  symlinkSync('..v1', join(folder, '..data'))
  symlinkSync(join('..data', 'routes.yaml'), join(folder, 'routes.yaml'))
  await until(async () => (await status('/v1')) === 200, 'the first version')
  symlinkSync('..v2', join(folder, '..data_tmp'))
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
  await until(async () => (await status('/v2')) === 200, 'the second version')
  t.equal(await status('/v1'), 404)
})

const broken: Readonly<Record<string, string>> = {
  'no YAML': 'routes: [',
  'against the schema': JSON.stringify({ routes: [{ id: 'x' }] }),
  'with an unknown role': tableOf([{ ...open('/b'), access: 'authenticated', require: { role: 'nobody' } }]),
  'with rows that tie': tableOf([open('/b'), { ...open('/b'), id: 'other' }]),
  'to an unknown upstream': tableOf([{ ...open('/b'), upstream: 'nowhere' }]),
}
for (const [what, text] of Object.entries(broken))
  t.test(`a table ${what} changes nothing, and is told of until it is mended`, async (t) => {
    const { folder, status, metric } = await start(t, [open('/a')])
    t.equal(await metric('sallyport_policy_reload_success'), 1)
    replace(folder, 'routes.yaml', text)
    await until(async () => (await metric('sallyport_policy_reload_success')) === 0, 'the metric')
    t.same([await status('/a'), await status('/b')], [200, 404])
    replace(folder, 'routes.yaml', tableOf([open('/b')]))
    await until(async () => (await metric('sallyport_policy_reload_success')) === 1, 'the metric')
    t.same([await status('/a'), await status('/b')], [404, 200])
  })

t.test('a folder without policies changes nothing', async (t) => {
  const { folder, status, metric } = await start(t, [open('/a')])
  for (const name of ['routes.yaml', 'roles.yaml']) rmSync(join(folder, name))
  await until(async () => (await metric('sallyport_policy_reload_success')) === 0, 'the metric')
  t.equal(await status('/a'), 200)
})

const folderBeside = ({ logFile }: Replica): string => join(dirname(logFile), 'policies')

const tellersOf = ({ readLog }: Replica, message: string): ReadonlySet<number | undefined> =>
  new Set(
    readLog()
      .split('\n')
      .slice(0, -1)
      .map((line): JsonValue => JSON.parse(line))
      .flatMap(({ msg, worker }) => (msg === message ? [worker as number | undefined] : [])),
  )

for (const workers of [1, 2])
  t.test(`SIGHUP reloads ${workers === 1 ? 'a gateway' : 'every worker'} at once, and ends none`, async (t) => {
    const upstream = await startUpstream(t)
    const replica = await startReplica(t, {
      routes: [open('/a')],
      upstreams: { platform: { url: upstream.url } },
      settings: { workers },
    })
    const status = async (path: string): Promise<number> => (await call(replica.public, { path })).status
    replace(folderBeside(replica), 'routes.yaml', tableOf([open('/b')]))
    process.kill(replica.pid, 'SIGHUP')
    for (const message of ['reload requested', 'policies reloaded'])
      await until(() => tellersOf(replica, message).size === workers, `"${message}" of every process`)
    t.equal(await status('/b'), 200)
    for (let count = 0; count < 8; count++) t.equal(await status('/a'), 404)
    replace(folderBeside(replica), 'routes.yaml', 'routes: [')
    process.kill(replica.pid, 'SIGHUP')
    await until(() => replica.readLog().includes('reload failed'), 'the log')
    t.match(replica.readLog(), /routes\.yaml:1:/, 'with the place')
    t.equal(await status('/b'), 200)
    t.equal(await replica.stop(), 0)
  })

t.test('ten reloads under load: every answer is one of the old table or of the new one, and none fails', async (t) => {
  const upstream = await startUpstream(t)
  const replica = await startReplica(t, {
    routes: [open('/v0'), open('/always')],
    upstreams: { platform: { url: upstream.url } },
    settings: { log: { level: 'error' } },
  })
  const agent = new Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  let version = 0
  let isOver = false
  const misjudged: string[] = []
  let asked = 0
  const ask = async (): Promise<void> => {
    while (!isOver) {
      const before = version
      const { status } = await call(replica.public, { path: '/always', agent })
      if (status !== 200) misjudged.push(`/always ${status}`)
      const { status: old } = await call(replica.public, { path: `/v${before}`, agent })
      // A new policy may have come into force between the two requests.
      if (old !== 200 && !(old === 404 && version !== before)) misjudged.push(`/v${before} ${old}`)
      const { status: never } = await call(replica.public, { path: '/never', agent })
      if (never !== 404) misjudged.push(`/never ${never}`)
      asked += 3
      await sleep(restMs)
    }
  }
  const load = [ask(), ask(), ask(), ask()]
  const folder = folderBeside(replica)
  for (let next = 1; next <= 10; next++) {
    // The old path stays until the new one is known, so that each answer has one right value.
    replace(folder, 'routes.yaml', tableOf([open(`/v${next - 1}`), open(`/v${next}`), open('/always')]))
    await until(async () => (await call(replica.public, { path: `/v${next}` })).status === 200, `version ${next}`)
    version = next
  }
  isOver = true
  await Promise.all(load)
  t.same(misjudged, [])
  t.ok(asked > 100, `${asked} requests`)
  t.equal(await replica.stop(), 0)
})

t.test(
  'a long table starts a gateway and reloads likewise, whole or not at all, while requests are answered',
  async (t) => {
    const upstream = await startUpstream(t)
    const rows = Array.from({ length: 1_500 }, (_, index) => refused(`/long/${index}`))
    const replica = await startReplica(t, {
      routes: [...rows, open('/a')],
      upstreams: { platform: { url: upstream.url } },
      settings: { log: { level: 'warn' } },
    })
    const status = async (path: string): Promise<number> => (await call(replica.public, { path })).status
    t.same([await status('/a'), await status('/long/1499'), await status('/b')], [200, 401, 404])
    const folder = folderBeside(replica)
    replace(folder, 'routes.yaml', tableOf([...rows, open('/b')]))
    process.kill(replica.pid, 'SIGHUP')
    const seen = new Set<string>()
    await until(
      async () => {
        const [old, fresh] = [await status('/a'), await status('/b')]
        seen.add(`${old} ${fresh}`)
        return fresh === 200 && old === 404
      },
      'the new table',
      60_000,
    )
    // The second answer may come from a later policy than the first.
    t.same(
      [...seen].filter((both) => !['200 404', '200 200', '404 200'].includes(both)),
      [],
    )
    replace(folder, 'routes.yaml', tableOf([...rows, open('/c'), { ...open('/b'), upstream: 'nowhere' }]))
    process.kill(replica.pid, 'SIGHUP')
    await until(() => replica.readLog().includes('reload failed'), 'the log', 60_000)
    t.match(replica.readLog(), /routes\.yaml:1:\d+: [^"]*\\"b\\"/, 'with the place')
    t.same([await status('/b'), await status('/c')], [200, 404])
    t.equal(await replica.stop(), 0)
  },
)

/** The files on disk after each step of the published sequence. */
const sequence: readonly (readonly [step: string, files: Readonly<Record<string, string>>])[] = [
  ['start with an empty rule list', { 'routes.yaml': tableOf([]) }],
  ['add rule /rules allow', { 'routes.yaml': tableOf([open('/rules')]) }],
  ['change its authoriser to deny', { 'routes.yaml': tableOf([refused('/rules')]) }],
  ['reference a handler that is switched off', { 'routes.yaml': broken['to an unknown upstream'] ?? '' }],
  ['(before the next file exists) other route', {}],
  [
    'add a second rule file',
    { 'routes.yaml': tableOf([open('/rules')]), 'other.yaml': tableOf([open('/other-rules')]) },
  ],
  ['edit only the second file to deny', { 'other.yaml': tableOf([refused('/other-rules')]) }],
  ['remove all rules', { 'routes.yaml': tableOf([]), 'other.yaml': tableOf([]) }],
]

/** Refused requests carry no credential here, and a file that does not load changes nothing. */
const ours: Readonly<Record<number, number>> = { 403: 401, 500: 401 }

testVectors(t, 'proxy/reload-sequence.json', 'a published sequence of reloads, under load', async (t, { steps }) => {
  t.same(
    steps.map(({ do: step }: { do: string }) => step),
    sequence.map(([step]) => step),
  )
  const { gateway, folder, status } = await start(t, [])
  let isOver = false
  const seen = new Set<number>()
  const load = ['/rules', '/other-rules'].map(async (path) => {
    // A dropped connection rejects, and fails the test.
    while (!isOver) {
      seen.add((await call(gateway.public, { path })).status)
      await sleep(restMs)
    }
  })
  for (const [index, [step, files]] of sequence.entries()) {
    for (const [name, text] of Object.entries(files)) replace(folder, name, text)
    for (const [path, expected] of Object.entries<number>(steps[index].expect))
      await until(async () => (await status(path)) === (ours[expected] ?? expected), `${step}: ${path}`, 3_000)
    t.pass(step)
  }
  isOver = true
  await Promise.all(load)
  t.same([...seen].sort(), [200, 401, 404])
})
