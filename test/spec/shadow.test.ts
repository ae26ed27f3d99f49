import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { call } from '../support/client.ts'
import { startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { type TableParts, writeTable } from '../support/policy-table.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const row = (path: string, more: Readonly<Record<string, unknown>>) => ({
  id: path.slice(1),
  match: { path },
  surface: 'platform',
  upstream: 'platform',
  ...more,
})

const shadowTable = (routes: readonly string[]): TableParts => ({
  routes: routes.map((line) => `${line} upstream: platform`),
})

t.test('a shadow table is counted and never enforced, follows its files, and may be broken', async (t) => {
  const world = await startTestWorld(t)
  const upstream = await startRawUpstream(t, (socket) =>
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nseen'),
  )
  const shadow = join(t.testdir({ shadow: { 'a.yaml': 'routes: [' } }), 'shadow')
  const gateway = await startTestGateway(t, {
    world,
    upstreams: { platform: { url: upstream.url } },
    settings: { policies: { directory: 'policies', shadow } },
    routes: [row('/members', { require: { role: 'org-member' } }), row('/owners', { require: { role: 'org-owner' } })],
  })
  const metric = async (name: string): Promise<number> => {
    const { text } = await call(gateway.admin, { path: '/metrics' })
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.split(' ')[1] ?? 0,
    )
  }
  const differences = (route: string, kind: string) =>
    metric(`sallyport_shadow_differences_total{route="${route}",kind="${kind}"}`)
  const replace = (routes: readonly string[]): void => {
    writeFileSync(join(shadow, '.new'), writeTable(shadowTable(routes)))
    renameSync(join(shadow, '.new'), join(shadow, 'a.yaml'))
  }
  const headers = oauth(world.users.member)
  const status = async (path: string, origin = gateway.public, more = {}): Promise<number> =>
    (await call(origin, { path, headers: { ...headers, ...more } })).status

  await until(async () => (await metric('sallyport_shadow_reload_success')) === 0, 'the broken shadow is told of')
  t.equal(await metric('sallyport_policy_reload_success'), 1, 'the live table is another matter')
  // Until the issuer's keys have arrived the gateway answers 503.
  await until(async () => (await status('/members')) !== 503, 'the keys of the issuer', 10_000)
  t.same([await status('/members'), await status('/owners')], [200, 403], 'the live table serves')

  replace(['/members GET require: { role: org-owner }', '/owners GET require: { role: org-member }'])
  await until(async () => (await metric('sallyport_shadow_reload_success')) === 1, 'the mended shadow')
  t.same([await status('/members'), await status('/owners'), await status('/none')], [200, 403, 404])
  t.same([await differences('members', 'lost'), await differences('owners', 'gained')], [1, 1])
  t.equal(await differences('none', 'other_refusal'), 0)

  const console = async (): Promise<string> => (await call(gateway.admin, { path: '/' })).text
  const beside = async (): Promise<string> => /Beside the policy in force, .*?<\/dd>/s.exec(await console())?.[0] ?? ''
  await until(async () => (await beside()).includes('wider: '), 'the widenings of the shadow', 10_000)
  t.match(await beside(), /wider: GET HEAD \/owners for org-member, org-admin, by r1<\/dd>/)
  t.notMatch(await beside(), 'GET HEAD /members for')

  const original = { 'x-forwarded-method': 'GET', 'x-forwarded-uri': '/members' }
  t.equal(await status('/authorize', gateway.decision, original), 200)
  t.equal(await differences('members', 'lost'), 2, 'decisions of the decision listener are compared too')

  rmSync(join(shadow, 'a.yaml'))
  mkdirSync(join(shadow, 'a.yaml'))
  await until(async () => (await metric('sallyport_shadow_reload_success')) === 0, 'a file that cannot be read')
  t.equal(await status('/members'), 200)
  t.equal(await differences('members', 'lost'), 3, 'the last good shadow goes on')
})
