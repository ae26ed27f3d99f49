import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { findFreePort } from '../../demo/free-port.ts'
import { call } from '../support/client.ts'
import { runCommand } from '../support/command-line.ts'
import { openRoute, startRawUpstream, until } from '../support/gateway.ts'
import { startReplica } from '../support/replicas.ts'
import { startTestWorld } from '../support/world.ts'

type Rows = readonly Readonly<Record<string, unknown>>[]

const open = (id: string, path: string) => ({ ...openRoute, id, match: { path } })
const guarded = (id: string, path: string) => ({ ...open(id, path), access: 'authenticated' })
const tableOf = (routes: Rows): string => JSON.stringify({ routes })

function replace(folder: string, name: string, text: string): void {
  writeFileSync(join(folder, `.${name}.new`), text)
  renameSync(join(folder, `.${name}.new`), join(folder, name))
}

async function start(t: Test, settings: Readonly<Record<string, unknown>> = {}) {
  const upstream = await startRawUpstream(t, (socket) =>
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nseen'),
  )
  const adminPort = await findFreePort()
  const anyPort = { host: '127.0.0.1', port: 0 }
  const replica = await startReplica(t, {
    routes: [open('public', '/public/*'), guarded('mine', '/mine')],
    upstreams: { platform: { url: upstream.url } },
    settings: {
      listeners: { public: anyPort, decision: anyPort, admin: { ...anyPort, port: adminPort } },
      ...settings,
    },
  })
  const folder = join(dirname(replica.logFile), 'policies')
  const metric = async (name: string): Promise<number> => {
    const { text } = await call(replica.admin, { path: '/metrics' })
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.split(' ')
        .at(-1),
    )
  }
  return {
    replica,
    folder,
    metric,
    configuration: join(dirname(replica.logFile), 'gateway.yaml'),
    status: async (path: string): Promise<number> => (await call(replica.public, { path })).status,
    isHeld: async (): Promise<boolean> => (await metric('sallyport_policy_held')) === 1,
    lines: (message: string) =>
      replica
        .readLog()
        .split('\n')
        .filter((line) => line.includes(`"msg":"${message}`))
        .map((line) => JSON.parse(line)),
    console: async (): Promise<string> => (await call(replica.admin, { path: '/' })).text,
  }
}

const secret = tableOf([guarded('secret', '/public/secret')])
const openMine = tableOf([open('public', '/public/*'), open('mine', '/mine')])

t.test(
  'a file that is missing for a while changes no access; one that stays away is held until it is confirmed',
  async (t) => {
    const { replica, folder, status, isHeld, lines, configuration, console } = await start(t)
    replace(folder, 'secret.yaml', secret)
    await until(async () => (await status('/public/secret')) === 401, 'the file')
    rmSync(join(folder, 'secret.yaml'))
    const missingSinceMs = performance.now()
    await until(isHeld, 'the gauge')
    t.equal(await status('/public/secret'), 401)
    replace(folder, 'secret.yaml', secret)
    await until(async () => !(await isHeld()), 'its return')
    rmSync(join(folder, 'secret.yaml'))
    await until(isHeld, 'the gauge')
    await until(() => lines('policies held back').length >= 3, 'the judgement', 30_000)
    t.ok(performance.now() - missingSinceMs > 10_000)
    t.equal(await status('/public/secret'), 401, 'no route of it is elsewhere')
    t.match(lines('policies held back').at(-1), { level: 'warn', reason: 'file_missing', names: ['secret.yaml'] })
    t.match(await console(), 'The files are held back')
    t.match((await call(replica.admin, { path: '/readyz' })).json(), { checks: { policy: 'ok' } })
    const { code, stdout } = await runCommand(['policy', 'confirm', '--config', configuration])
    t.equal(code, 0)
    t.match(stdout, `process ${replica.pid} `)
    await until(async () => (await status('/public/secret')) === 200, 'what was confirmed')
    t.notOk(await isHeld())
  },
)

t.test('a set of files that is replaced as a whole is taken after a while, though one is missing', async (t) => {
  const { folder, status } = await start(t)
  const roles = readFileSync(join(folder, 'roles.yaml'), 'utf8')
  const versions = {
    '..1': { 'a.yaml': tableOf([open('public', '/public/*')]), 'b.yaml': secret },
    '..2': { 'a.yaml': tableOf([open('public', '/public/*'), open('second', '/second')]) },
  }
  for (const [version, files] of Object.entries(versions)) {
    mkdirSync(join(folder, version))
    for (const [name, text] of Object.entries({ ...files, 'roles.yaml': roles }))
      writeFileSync(join(folder, version, name), text)
  }
  symlinkSync('..1', join(folder, '..data'))
  for (const name of ['a.yaml', 'b.yaml']) symlinkSync(join('..data', name), join(folder, name))
  for (const name of ['roles.yaml', 'routes.yaml']) rmSync(join(folder, name))
  symlinkSync(join('..data', 'roles.yaml'), join(folder, 'roles.yaml'))
  await until(async () => (await status('/public/secret')) === 401, 'the first set', 30_000)
  symlinkSync('..2', join(folder, '..new'))
  renameSync(join(folder, '..new'), join(folder, '..data'))
  rmSync(join(folder, 'b.yaml'))
  await sleep(2_000)
  t.equal(await status('/second'), 404, 'it may come yet')
  await until(async () => (await status('/second')) === 200, 'the second set', 30_000)
  t.equal(await status('/public/secret'), 200)
})

t.test('a policy that lost its routes with their file is held, and so is a folder without files', async (t) => {
  const { folder, status, isHeld, lines, metric } = await start(t)
  const names = ['routes.yaml', 'roles.yaml']
  const texts = names.map((name) => readFileSync(join(folder, name), 'utf8'))
  const checkKept = async (): Promise<void> => {
    t.equal(await status('/public/secret'), 200)
    t.equal(await status('/mine'), 401)
  }
  rmSync(join(folder, 'routes.yaml'))
  await until(() => lines('policies held back').some(({ reason }) => reason === 'no_routes'), 'the line', 30_000)
  t.ok(await isHeld())
  await checkKept()
  rmSync(join(folder, 'roles.yaml'))
  await until(async () => (await metric('sallyport_policy_reload_success')) === 0, 'the metric')
  await checkKept()
  for (const [index, name] of names.entries()) replace(folder, name, texts[index] ?? '')
  await until(async () => !(await isHeld()), 'the return of the files')
  await checkKept()
})

t.test('gained, lost and widened routes of a reload are named', async (t) => {
  const { folder, status, metric, lines, console } = await start(t)
  replace(folder, 'routes.yaml', tableOf([open('mine', '/mine'), guarded('new', '/new')]))
  await until(async () => (await status('/mine')) === 200, 'the policy')
  await until(() => lines('policies changed').length > 0, 'the line')
  t.match(lines('policies changed'), [
    { level: 'warn', gained: ['new'], lost: ['public'], widened: [/ \/mine for .*anonymous.*, by mine$/] },
  ])
  for (const [kind, route] of Object.entries({ gained: 'new', lost: 'public', widened: 'mine' }))
    t.ok((await metric(`sallyport_policy_changes_total{kind="${kind}",route="${route}"}`)) > 0, kind)
  t.match(await console(), 'wider: ')
})

for (const workers of [1, 2])
  t.test(
    `with onWidening: hold, a policy that widens access waits for its confirmation, with ${workers} worker(s)`,
    async (t) => {
      const { replica, folder, status, isHeld, lines, configuration } = await start(t, {
        reload: { onWidening: 'hold' },
        workers,
      })
      replace(
        folder,
        'routes.yaml',
        tableOf([open('public', '/public/*'), guarded('mine', '/mine'), guarded('n', '/n')]),
      )
      await until(isHeld, 'the gauge: a new route lets members in')
      replace(folder, 'routes.yaml', openMine)
      await until(() => lines('policies held back').some(({ names }) => names.includes('mine')), 'the line')
      for (let time = 0; time < 10; time += 1) t.equal(await status('/mine'), 401)
      t.match((await call(replica.admin, { path: '/readyz' })).json(), { checks: { policy: 'ok' } })
      const { code, stderr } = await runCommand(['policy', 'confirm', '--config', configuration])
      t.equal(code, 0, stderr)
      await until(async () => (await status('/mine')) === 200, 'what was confirmed')
      await until(async () => !(await isHeld()), 'the gauge')
      // A narrower policy needs no confirmation.
      replace(folder, 'routes.yaml', tableOf([guarded('mine', '/mine')]))
      await until(async () => (await status('/mine')) === 401, 'the narrower policy')
    },
  )

t.test('a pipe in the place of a file stops no reload, and confirm without a gateway says so', async (t) => {
  const { folder, status, metric, configuration, replica } = await start(t)
  rmSync(join(folder, 'routes.yaml'))
  execFileSync('mkfifo', [join(folder, 'routes.yaml')])
  await until(async () => (await metric('sallyport_policy_reload_success')) === 0, 'the metric')
  t.equal(await status('/mine'), 401)
  replace(folder, 'routes.yaml', openMine)
  await until(async () => (await status('/mine')) === 200, 'the file')
  await replica.stop()
  const { code, stderr } = await runCommand(['policy', 'confirm', '--config', configuration])
  t.not(code, 0)
  t.match(stderr, 'no process here listens')
})

t.test('a start logs the changes since the previous start', async (t) => {
  const world = await startTestWorld(t)
  const started = async (routes: Rows) => {
    const replica = await startReplica(t, { world, routes, settings: { policies: { directory } } })
    return replica
  }
  const directory = t.testdir({ 'roles.yaml': readFileSync('policies/roles.yaml', 'utf8') })
  replace(directory, 'routes.yaml', tableOf([guarded('mine', '/mine')]))
  const first = await started([])
  const { default: pg } = await import('pg')
  const client = new pg.Client(world.databaseUrl)
  await client.connect()
  t.teardown(() => client.end())
  const kept = async (): Promise<string> =>
    JSON.stringify((await client.query('select files from sallyport_directory.policy_tables')).rows)
  await until(async () => (await kept()).includes('/mine'), 'the policy in the database', 60_000)
  t.notMatch(first.readLog(), 'since the last start')
  await first.stop()
  replace(directory, 'routes.yaml', tableOf([open('mine', '/mine'), guarded('more', '/more')]))
  const second = await started([])
  await until(() => second.readLog().includes('policies changed since the last start'), 'the line')
  t.match(second.readLog(), /"gained":\["more"\],"lost":\[\],"widened":\["[^"]*\/mine for [^"]*anonymous/)
  await second.stop()
  const third = await started([])
  await sleep(1_000)
  t.notMatch(third.readLog(), 'since the last start')
})
