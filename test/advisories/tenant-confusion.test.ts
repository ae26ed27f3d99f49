import { decodeJwt } from 'jose'
import t from 'tap'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { owner, member, platformAdmin } = world.users
const { acme, globex, initech } = world.organizations
const { robot } = world.serviceAccounts

/** The organization that a backend is told of, by the signed claims and by the header; undefined where nothing arrived. */
async function arriveIn(headers: Readonly<Record<string, string | string[]>>, path = '/public/x'): Promise<unknown> {
  await world.clearRecorder()
  const { status } = await world.call({ path, headers })
  const [arrived, ...more] = await world.recorded()
  if (!arrived) return status
  const values = (wanted: string) =>
    arrived.headers.flatMap(([name, value]) => (name.toLowerCase() === wanted ? [value] : []))
  const [identity = ''] = values('x-gateway-identity')
  const claims = decodeJwt(identity) as { organization?: { id: number } | null }
  return [claims.organization?.id ?? null, ...values('x-organization-id'), ...more]
}

const told = (id: number): readonly unknown[] => [id, String(id)]
const cookie = (id: number | string): Record<string, string> => ({ cookie: `current-org-id=${id}` })
const header = (id: number | string): Record<string, string> => ({ 'x-organization-id': String(id) })

// Broken access control across tenants: two places that name an organization, of which one was checked and the other used.
t.test('the organization that was checked arrives, however a mixture names it', async (t) => {
  const me = oauth(owner)
  t.same(await arriveIn(me), told(acme.id))
  t.same(await arriveIn({ ...me, ...header(globex.id), ...cookie(acme.id) }), told(globex.id))
  t.same(await arriveIn({ ...me, ...header(acme.id), ...cookie(globex.id) }), told(acme.id))
  t.same(await arriveIn({ ...me, ...cookie(globex.id) }), told(globex.id))
  t.same(
    await arriveIn({ ...me, ...header(acme.id), ...cookie(initech.id) }),
    told(acme.id),
    'the cookie is not looked at',
  )
  t.same(await arriveIn({ ...me, x_organization_id: String(globex.id) }), told(acme.id))
  t.same(await arriveIn({ ...me, 'x-gateway-organization': String(globex.id) }), told(acme.id))
})

t.test('no mixture brings a caller into an organization of others', async (t) => {
  for (const me of [oauth(member), oauth(platformAdmin), bearer(robot.apiSecret)]) {
    for (const more of [
      header(globex.id),
      { ...header(globex.id), ...cookie(acme.id) },
      cookie(globex.id),
      header(initech.id),
      header(2_147_483_647),
    ])
      t.equal(await arriveIn({ ...me, ...more }), 401, JSON.stringify(more))
    for (const more of [
      { 'x-organization-id': [String(acme.id), String(globex.id)] },
      header(`${acme.id},${globex.id}`),
      header(`0${acme.id}`),
      header(`+${acme.id}`),
      header(`${acme.id}.0`),
      header(`${acme.id} 0`),
      header('-1'),
      header(`${2 ** 32 + acme.id}`),
      header(''),
      { cookie: `current-org-id=${acme.id}; current-org-id=${globex.id}` },
      { cookie: [`current-org-id=${acme.id}`, `current-org-id=${globex.id}`] },
      cookie('1e0'),
    ])
      t.equal(await arriveIn({ ...me, ...more }), 400, JSON.stringify(more))
  }
})

t.test('a path, a header and a cookie that name different organizations are refused', async (t) => {
  await world.clearRecorder()
  const tokens = (id: number) => `/organizations/${id}/users/${robot.id}/tokens`
  const me = oauth(owner)
  t.equal((await world.call({ path: tokens(acme.id), headers: { ...me, ...cookie(globex.id) } })).status, 200)
  t.equal((await world.call({ path: tokens(acme.id), headers: { ...me, ...header(globex.id) } })).status, 400)
  t.equal((await world.call({ path: tokens(globex.id), headers: { ...me, ...header(acme.id) } })).status, 400)
  t.equal((await world.call({ path: tokens(initech.id), headers: me })).status, 403)
  t.equal((await world.call({ path: tokens(initech.id), headers: { ...me, ...header(initech.id) } })).status, 403)
})

t.test('another organization’s resources do not exist, whichever organization is in force', async (t) => {
  await world.clearRecorder()
  const agent = `/agent/${world.agents.globex}/responses`
  const cluster = `/clusters/${world.clusters.globex}/proxy/x`
  for (const headers of [oauth(member), { ...oauth(owner), ...header(acme.id) }, bearer(robot.apiSecret)]) {
    t.equal((await world.call({ path: cluster, headers })).status, 404)
    t.equal((await world.call({ method: 'POST', path: agent, headers, body: '{}' })).status, 404)
  }
  const inGlobex = await world.call({
    path: `/clusters/${world.clusters.healthy}/proxy/x`,
    headers: { ...oauth(owner), ...header(globex.id) },
  })
  t.equal(inGlobex.status, 404, 'acme’s cluster from globex')
})
