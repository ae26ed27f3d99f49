import t, { type Test } from 'tap'
import { findFreePort } from '../../gateway/demo/free-port.ts'
import { type Call, call } from '../support/client.ts'
import { openRoute, startTestGateway, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { testShown } from '../support/ingress/examples.ts'
import { type ProxyName, testProxy } from '../support/ingress/programs.ts'
import { startBareNginx, startStock } from '../support/ingress/stock.ts'
import { bearer, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const member = bearer(world.serviceAccounts.robot.apiSecret)
const administrator = bearer(world.serviceAccounts.robotAdmin.apiSecret)

const guarded = { ...openRoute, access: 'authenticated', require: { role: 'org-admin' } }
const gateway = await startTestGateway(t, {
  world,
  routes: [
    { ...openRoute, access: 'authenticated', match: { methods: ['GET'], path: '/x' } },
    { ...guarded, id: 'host', match: { host: 'admin.example', path: '/*' } },
    { ...guarded, id: 'path', match: { path: '/admin/*' } },
    { ...guarded, id: 'method', match: { methods: ['DELETE'], path: '/x' } },
  ],
})

/** The ways to spell a name so that some server reads it as the one with hyphens. */
const spellings = ['-', '_', '.', '+', '~', '!'].flatMap((mark) => [
  (name: string) => name.replaceAll('-', mark),
  (name: string) => name.replace('-', mark).toUpperCase(),
])

/** Takes a proxy's own words away, if it removes what `Connection` names after it has set them. */
const nominating = (family: string) => {
  const others = family === 'x-original' ? 'x-forwarded' : 'x-original'
  return { connection: `${others}-uri, ${others}-method, x-forwarded-host` }
}

/** A client's own words about a request that anyone of the organization may make. */
const forgeries = ['x-original', 'x-forwarded'].flatMap((family) => {
  const target = { [`${family}-uri`]: '/x' }
  const method = { [`${family}-method`]: 'GET' }
  const host = { 'x-forwarded-host': 'open.example' }
  const both = { ...target, ...method }
  return [target, method, both, host, { ...target, ...host }, { ...both, ...host }, { ...both, ...nominating(family) }]
})

const respell = (headers: Readonly<Record<string, string>>, spell: (name: string) => string) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [spell(name), value]))

/** Requests of an administrator, as a member makes them. */
const wanted = [
  { method: 'GET', path: '/x', headers: { host: 'admin.example' } },
  { method: 'GET', path: '/admin/x', headers: { host: 'open.example' } },
  { method: 'DELETE', path: '/x', headers: { host: 'open.example' } },
] as const

type Ask = (call: Call & { headers: Readonly<Record<string, string>> }) => Promise<number>

/** No header of a client chooses the route that judges it. */
async function testForgeries(t: Test, ask: Ask): Promise<void> {
  for (const honest of wanted) {
    const name = `${honest.method} ${honest.headers.host}${honest.path}`
    t.equal(await ask({ ...honest, headers: { ...honest.headers, ...administrator } }), 200, `${name}, administrator`)
    t.equal(await ask({ ...honest, headers: { ...honest.headers, ...member } }), 403, `${name}, member`)
    for (const forged of forgeries)
      for (const spell of spellings) {
        const headers = { ...honest.headers, ...member, ...respell(forged, spell) }
        const status = await ask({ ...honest, headers })
        if (status < 300) t.fail(`${name} with ${JSON.stringify(respell(forged, spell))} is ${status}`)
      }
  }
}

/** The call of a proxy that passes all of a client's headers on and overwrites none but its own. */
const tellAs =
  (words: (call: Call & { headers: Readonly<Record<string, string>> }) => Readonly<Record<string, string>>): Ask =>
  async (request) => {
    const { host: _, ...passed } = request.headers
    const told = words(request)
    const headers = { ...passed, ...told }
    return (await call(gateway.decision, { path: '/authorize', headers })).status
  }

// oauth2-proxy CVE-2026-40575 has the same for the path: a header of the other family chose what was judged.
t.test('a proxy’s own words name the host, whatever a client adds', async (t) => {
  for (const [name, ask] of Object.entries({
    'as Traefik asks': tellAs(({ method = '', path, headers }) => ({
      host: 'sallyport:8081',
      ...{ 'x-forwarded-method': method, 'x-forwarded-uri': path, 'x-forwarded-host': headers.host ?? '' },
    })),
    'as Caddy asks': tellAs(({ method = '', path, headers: { host = '' } }) => ({
      ...{ 'x-forwarded-method': method, 'x-forwarded-uri': path, 'x-forwarded-host': host, host },
    })),
    'as nginx asks': tellAs(({ method = '', path, headers: { host = '' } }) => ({
      ...{ 'x-original-method': method, 'x-original-uri': path, host },
    })),
  }))
    await t.test(name, (t) => testForgeries(t, ask))
})

const proxies: readonly ProxyName[] = ['traefik', 'caddy', 'nginx', 'haproxy', 'envoy']
for (const name of proxies)
  testProxy(t, name, async (t, program) => {
    const backend = await startHttpUpstream(t)
    const places = {
      front: await findFreePort(),
      public: Number(new URL(gateway.public).port),
      decision: Number(new URL(gateway.decision).port),
      backend: Number(new URL(backend.url).port),
    }
    await startStock[name](t, program, places)
    const front = `http://127.0.0.1:${places.front}`
    // Traefik listens before it knows where to.
    await until(async () => (await call(front, { path: '/x', headers: member })).status === 200, 'it leads somewhere')
    await testForgeries(t, async (request) => {
      const before = backend.ids().length
      const { status } = await call(front, request)
      t.equal(backend.ids().length - before, status === 200 ? 1 : 0, 'the backend sees what was allowed, alone')
      return status
    })
  })

testProxy(t, 'nginx', async (t, program) => {
  const backend = await startHttpUpstream(t)
  const front = await findFreePort()
  const places = { front, public: 1, decision: Number(new URL(gateway.decision).port), backend: 1 }
  await startBareNginx(t, program, { ...places, backend: Number(new URL(backend.url).port) })
  const answer = await call(`http://127.0.0.1:${front}`, { path: '/x', headers: administrator })
  t.equal(answer.status, 403, 'without a method nothing passes, so that its lack is seen')
})

testShown(t, 'haproxy.md', ['haproxy-decision.cfg'])
