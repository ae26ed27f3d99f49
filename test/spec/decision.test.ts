import { createRemoteJWKSet, jwtVerify } from 'jose'
import t from 'tap'
import { type Call, call } from '../support/client.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const ask = (request: Call) => call(world.decision, request)
const about = (method: string, target: string) => ({ 'x-original-method': method, 'x-original-uri': target })

t.test('200 carries the pinned headers and nothing reaches a backend', async (t) => {
  await world.clearRecorder()
  const headers = { ...about('GET', '/datasets?page=2'), ...oauth(world.users.member), 'x-request-id': 'one' }
  const answer = await ask({ path: '/authorize', headers })
  t.equal(answer.status, 200)
  t.equal(answer.headers['x-organization-id'], String(world.organizations.acme.id))
  t.equal(answer.headers['x-request-id'], 'one')
  const keys = createRemoteJWKSet(new URL(`${world.admin}/.well-known/jwks.json`))
  const { payload } = await jwtVerify(String(answer.headers['x-gateway-identity']), keys, { audience: 'platform' })
  t.equal(payload.sub, String(world.users.member.id))
  t.same(await world.recorded(), [])
})

t.test('the same policy decides: refusals have the public listener’s status and shape', async (t) => {
  const cases = [
    ['GET', '/datasets', {}],
    ['POST', '/datasets', oauth(world.users.member)],
    ['GET', '/admin/x', oauth(world.users.admin)],
    ['GET', '/nowhere', oauth(world.users.owner)],
    ['DELETE', '/datasets', oauth(world.users.owner)],
    ['GET', '/public/../admin/x', oauth(world.users.member)],
    ['GET', '/clusters/2/proxy/x', oauth(world.users.member)],
    ['GET', '/clusters/3/proxy/x', oauth(world.users.member)],
    ['POST', '/graphql', bearer(world.serviceAccounts.robot.revoked)],
  ] as const
  for (const [method, path, headers] of cases) {
    const first = await world.call({ method, path, headers: { ...headers, 'x-request-id': 'same' } })
    const second = await ask({
      path: '/authorize',
      headers: { ...about(method, path), ...headers, 'x-request-id': 'same' },
    })
    t.equal(second.status, first.status, `${method} ${path}`)
    t.equal(second.text, first.text, `${method} ${path}`)
  }
})

t.test('?statuses=nginx keeps to 200, 401 and 403, and the truth in x-gateway-status', async (t) => {
  const owner = oauth(world.users.owner)
  for (const [target, headers, sent, truth] of [
    ['/datasets', owner, 200, '200'],
    ['/datasets', {}, 401, '401'],
    ['/nowhere', owner, 403, '404'],
    ['/clusters/3/proxy/x', owner, 403, '503'],
  ] as const) {
    const answer = await ask({ path: '/authorize?statuses=nginx', headers: { ...about('GET', target), ...headers } })
    t.equal(answer.status, sent, target)
    t.equal(answer.headers['x-gateway-status'], truth, target)
  }
})

t.test('/envoy/* and /envoy-named/* judge the call’s own method and target', async (t) => {
  const member = oauth(world.users.member)
  for (const prefix of ['/envoy', '/envoy-named']) {
    t.equal((await ask({ path: `${prefix}/datasets`, headers: member })).status, 200)
    t.equal((await ask({ method: 'POST', path: `${prefix}/datasets`, headers: member })).status, 403)
    t.equal((await ask({ path: `${prefix}/public/..%2fadmin/x`, headers: member })).status, 400)
  }
})

t.test('Envoy is told which of the client’s headers to remove', async (t) => {
  const removedAt = async (path: string, headers = {}) =>
    (await ask({ path, headers })).headers['x-envoy-auth-headers-to-remove']
  const credentials = 'authorization,x-oauth-access-token'
  const none = 'nothing goes on after a refusal'
  t.equal(await removedAt('/envoy-named/datasets', oauth(world.users.member)), credentials)
  t.equal(await removedAt('/envoy-named/public/x', oauth(world.users.homeless)), `x-organization-id,${credentials}`)
  t.equal(await removedAt('/envoy-named/status'), `x-gateway-identity,x-organization-id,${credentials}`)
  t.equal(await removedAt('/envoy-named/users/me', oauth(world.users.member)), undefined, 'the gateway asks again')
  for (const prefix of ['/envoy', '/envoy-named']) t.equal(await removedAt(`${prefix}/datasets`), undefined, none)
  // Under `/envoy` framing too: `test/advisories/framing-permits.test.ts` has the whole lines.
  t.match(await removedAt('/envoy/datasets', oauth(world.users.member)), `${credentials},content-length,`)
  t.match(await removedAt('/envoy/users/me', oauth(world.users.member)), /^content-length,/)
  t.equal(await removedAt('/authorize', { ...about('GET', '/status') }), undefined, 'others are told nothing of it')
})

t.test('an owned endpoint is judged like any route', async (t) => {
  const headers = about('GET', '/users/me')
  t.equal((await ask({ path: '/authorize', headers: { ...headers, ...oauth(world.users.homeless) } })).status, 200)
  t.equal((await ask({ path: '/authorize', headers })).status, 401)
})

t.test('the public listener has no path of the decision listener, nor the other way round', async (t) => {
  const headers = { ...about('GET', '/datasets'), ...oauth(world.users.owner) }
  t.equal((await world.call({ path: '/authorize', headers })).status, 404)
  t.equal((await ask({ path: '/datasets', headers })).status, 404)
})
