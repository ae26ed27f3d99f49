import type { Test } from 'tap'
import type { Call } from '../support/client.ts'
import { openRoute, startTestGateway, type TestGateway } from '../support/gateway.ts'
import { bearer, type TestWorld } from '../support/world.ts'

const guarded = { ...openRoute, access: 'authenticated', require: { role: 'org-admin' } }

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

export type AskProxy = (call: Call & { headers: Readonly<Record<string, string>> }) => Promise<number>

export type ForgeryFixture = Readonly<{
  gateway: TestGateway
  member: Readonly<Record<string, string>>
  administrator: Readonly<Record<string, string>>
  /** No header of a client chooses the route that judges it. */
  testForgeries: (t: Test, ask: AskProxy) => Promise<void>
}>

/** A gateway whose decision listener tells a member's requests from an administrator's by host, path and method. */
export async function startForgeryFixture(t: Test, world: TestWorld): Promise<ForgeryFixture> {
  const member = bearer(world.serviceAccounts.robot.apiSecret)
  const administrator = bearer(world.serviceAccounts.robotAdmin.apiSecret)
  const gateway = await startTestGateway(t, {
    world,
    routes: [
      { ...openRoute, access: 'authenticated', match: { methods: ['GET'], path: '/x' } },
      { ...guarded, id: 'host', match: { host: 'admin.example', path: '/*' } },
      { ...guarded, id: 'path', match: { path: '/admin/*' } },
      { ...guarded, id: 'method', match: { methods: ['DELETE'], path: '/x' } },
    ],
  })
  return { gateway, member, administrator, testForgeries: (t, ask) => testAll(t, ask, member, administrator) }
}

type Headers = ForgeryFixture['member']

async function testAll(t: Test, ask: AskProxy, member: Headers, administrator: Headers): Promise<void> {
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
