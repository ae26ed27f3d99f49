import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse, stringify } from 'yaml'
import { findFreePort } from '../../demo/free-port.ts'
import { call } from '../support/client.ts'
import { openRoute, startTestGateway, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { oauth, startTestWorld } from '../support/world.ts'
import { type Places, placeExample, testShown, writeFolder } from './ingress/examples.ts'
import { nginxMain } from './ingress/nginx-main.ts'
import { type Program, testProxy } from './ingress/programs.ts'
import { startProgram } from './ingress/start-program.ts'

const world = await startTestWorld(t)
const page = 'https://app.example'

testShown(t, 'README.md', [...['pages-nginx.conf', 'pages-Caddyfile', 'pages-envoy.yaml', 'pages-traefik.yaml']])

/** The lines of an addition behind each of its comments. */
const partsOf = (name: string, places: Places): readonly string[] =>
  placeExample(name, places)
    .split(/^# .*$/m)
    .slice(1)

const insert = (text: string, behind: string, lines = ''): string => {
  if (!text.includes(behind)) throw new Error(`the example has no ${behind}`)
  return text.replace(behind, () => `${behind}\n${lines}`)
}

type Start = (t: Test, program: Program, places: Places) => Promise<unknown>

const startNginx: Start = async (t, { path }, places) => {
  const [above, ofServer, ofLocation] = partsOf('pages-nginx.conf', places)
  const inServer = insert(placeExample('nginx.conf', places), `listen ${places.front};`, ofServer)
  const folder = writeFolder(t, {
    'nginx.conf': nginxMain,
    'sallyport.conf': `${above}\n${insert(inServer, 'location / {', ofLocation)}`,
  })
  await startProgram(t, { path, args: ['-p', folder, '-c', 'nginx.conf'], folder, port: places.front })
}

const startCaddy: Start = async (t, { path }, places) => {
  const [lines] = partsOf('pages-Caddyfile', places)
  const [head = '', site = ''] = placeExample('Caddyfile', places).split(/(?=^http:)/m)
  const folder = writeFolder(t, { Caddyfile: head + insert(site, 'import clean_request', lines) })
  const args = ['run', '--config', join(folder, 'Caddyfile'), '--adapter', 'caddyfile']
  const environment = { CADDY_ADMIN: `unix/${join(folder, 'admin')}` }
  await startProgram(t, { path, args, environment, folder, port: places.front })
}

type Manager = { http_filters: readonly object[]; route_config: { virtual_hosts: readonly object[] } }

const startEnvoy: Start = async (t, { path }, places) => {
  const { http_filters: filters, ...policy } = parse(placeExample('pages-envoy.yaml', places)) as Pick<
    Manager,
    'http_filters'
  >
  const example = parse(placeExample('envoy.yaml', places))
  const manager: Manager = example.static_resources.listeners[0].filter_chains[0].filters[0].typed_config
  manager.http_filters = [...filters, ...manager.http_filters]
  manager.route_config.virtual_hosts = manager.route_config.virtual_hosts.map((host) => ({ ...host, ...policy }))
  const folder = writeFolder(t, { 'envoy.yaml': stringify(example) })
  const args = ['-c', 'envoy.yaml', '--disable-hot-restart', '--concurrency', '1', '-l', 'warning']
  await startProgram(t, { path, args, folder, port: places.front })
}

for (const [name, start] of [
  ['nginx', startNginx],
  ['caddy', startCaddy],
  ['envoy', startEnvoy],
] as const)
  testProxy(t, name, async (t, program) => {
    const arrived: unknown[] = []
    const backend = await startHttpUpstream(t, ({ method }, response) => {
      arrived.push(method)
      response.end('the data')
    })
    const gateway = await startTestGateway(t, {
      world,
      routes: [{ ...openRoute, access: 'authenticated' }],
      upstreams: { platform: { url: backend.url } },
    })
    const portOf = (origin: string): number => Number(new URL(origin).port)
    const front = await findFreePort()
    const places = { front, public: portOf(gateway.public), decision: portOf(gateway.decision) }
    await start(t, program, { ...places, backend: portOf(backend.url) })
    const ask = (origin: string, headers: Readonly<Record<string, string>>, method = 'GET') =>
      call(`http://127.0.0.1:${front}`, { method, path: '/data', headers: { origin, ...headers } })
    await until(async () => (await ask(page, {})).status === 401, 'the proxy asks the gateway')
    const preflight = {
      'access-control-request-method': 'GET',
      'access-control-request-headers': 'x-oauth-access-token',
    }

    await t.test('a listed page has its preflight answered, and reads data and refusals', async (t) => {
      const asked = await ask(page, preflight, 'OPTIONS')
      t.match(asked, { status: /^20[04]$/, headers: { 'access-control-allow-origin': page } })
      t.match(asked.headers['access-control-allow-headers'], /x-oauth-access-token/i)
      t.same(arrived, [], 'no preflight comes to the backend')
      const read = await ask(page, oauth(world.users.member))
      t.match(read, { status: 200, text: 'the data', headers: { 'access-control-allow-origin': page } })
      const refused = await ask(page, { 'x-oauth-access-token': 'x.y.z' })
      t.match(refused, { status: 401, headers: { 'access-control-allow-origin': page } })
      t.same(arrived.splice(0), ['GET'])
    })

    await t.test('another page gets no leave, and its preflight reaches no backend', async (t) => {
      const other = 'https://other.example'
      const answers = [await ask(other, preflight, 'OPTIONS'), await ask(other, oauth(world.users.member))]
      for (const { headers } of answers) t.notOk(headers['access-control-allow-origin'])
      t.same(arrived, ['GET'])
    })
  })
