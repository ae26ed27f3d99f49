import type { Test } from 'tap'
import type { Call } from '../../support/client.ts'
import { bearer, oauth } from '../../support/world.ts'
import { refusalOf } from './arrivals.ts'
import type { IngressFixture } from './fixture.ts'

/** A refused request never arrives, and its client gets the gateway's answer. */
export function testRefused(t: Test, fixture: IngressFixture): void {
  const { users, serviceAccounts, organizations } = fixture.world
  const member = oauth(users.member)
  const naming = (...ids: readonly string[]) => ({ ...oauth(users.owner), 'x-organization-id': [...ids] })
  const refusals: Readonly<Record<string, readonly [Call, status: number]>> = {
    'without a credential': [{ path: '/datasets' }, 401],
    'with a revoked token': [{ path: '/datasets', headers: bearer(serviceAccounts.robot.revoked) }, 401],
    'for an organization of others': [{ path: '/datasets', headers: { ...member, 'x-organization-id': '3' } }, 401],
    'beyond the role': [{ method: 'POST', path: '/datasets', headers: member, body: '{}' }, 403],
    'beyond the ability': [
      { method: 'DELETE', path: '/datasets/7', headers: bearer(serviceAccounts.robotAdmin.apiKey) },
      403,
    ],
    'for nothing that is there': [{ path: '/nowhere', headers: member }, 404],
    'for another method': [{ method: 'DELETE', path: '/datasets', headers: member }, 405],
    'with two credentials': [
      { path: '/datasets', headers: { ...member, ...bearer(serviceAccounts.robot.apiKey) } },
      400,
    ],
    'with two lines of a JWT': [
      { path: '/datasets', headers: { 'x-oauth-access-token': [users.member.jwt, users.member.jwt] } },
      401,
    ],
    'for no organization': [{ path: '/datasets', headers: naming('abc') }, 400],
    'for two organizations': [
      { path: '/datasets', headers: naming(String(organizations.acme.id), String(organizations.globex.id)) },
      400,
    ],
    'on the data surface': [{ method: 'POST', path: '/data/x', headers: member, body: '{}' }, 403],
    'on the GraphQL surface': [{ method: 'POST', path: '/graphql', headers: oauth(users.client), body: '{}' }, 403],
    'on the model surface': [{ method: 'POST', path: '/agent/1/responses', body: '{}' }, 401],
  }
  for (const [name, [request, status]] of Object.entries(refusals))
    t.test(`a request ${name} is refused as in proxy mode`, async (t) => {
      const asked = { ...request, headers: { ...request.headers, 'x-request-id': 'scene-2' } }
      const alone = await fixture.alone.ask(asked)
      const front = await fixture.front.ask(asked)
      t.equal(alone.answer.status, status)
      t.same(refusalOf(front.answer), refusalOf(alone.answer))
      t.same(front.arrivals, [], 'nothing arrives')
      t.equal(front.answer.headers['x-gateway-identity'], undefined)
    })

  t.test('a request with two lines of Authorization is refused, by the gateway or the proxy', async (t) => {
    const authorization = Array<string>(2).fill(`Bearer ${serviceAccounts.robot.apiKey}`)
    const { answer, arrivals } = await fixture.front.ask({ path: '/datasets', headers: { authorization } })
    // nginx does not pass them on at all.
    t.ok([400, 401].includes(answer.status))
    t.same(arrivals, [])
  })

  t.test('a large body of a refused request is not waited for', async (t) => {
    const { answer, arrivals } = await fixture.front.ask({
      method: 'POST',
      path: '/datasets',
      headers: { ...member, 'content-length': '90000000' },
      body: 'x',
    })
    t.equal(answer.status, 403)
    t.same(arrivals, [])
  })
}
