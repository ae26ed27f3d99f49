import t from 'tap'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const member = oauth(world.users.member)

// A rule for one method must not be passed by another one, or by a word that only the backend takes for one. A member
// may read datasets and not write them.
t.test('no way of naming a method gets a write past the rule for it', async (t) => {
  await world.clearRecorder()
  const wishes: readonly Readonly<Record<string, string | string[]>>[] = [
    { 'x-http-method-override': 'DELETE' },
    { 'x-http-method': 'DELETE' },
    { 'x-method-override': 'DELETE' },
    { x_http_method_override: 'DELETE' },
    { 'X-HTTP-Method-Override': ['GET', 'DELETE'] },
  ]
  for (const wish of wishes)
    t.equal((await world.call({ path: '/datasets/1', headers: { ...member, ...wish } })).status, 200)
  const arrived = await world.recorded()
  t.equal(arrived.length, wishes.length)
  for (const { requestLine, headers } of arrived) {
    t.equal(requestLine, 'GET /datasets/1 HTTP/1.1')
    t.notMatch(JSON.stringify(headers), /DELETE|method/i, 'the wish does not arrive')
  }
  await world.clearRecorder()
  const body = '_method=GET'
  const form = { ...member, 'content-type': 'application/x-www-form-urlencoded' }
  t.equal((await world.call({ method: 'DELETE', path: '/datasets/1?_method=GET', headers: form, body })).status, 403)
  t.equal(
    (
      await world.call({
        method: 'POST',
        path: '/datasets',
        headers: { ...form, 'x-http-method-override': 'GET' },
        body,
      })
    ).status,
    403,
  )
  t.same(await world.recorded(), [], 'nothing arrived')
})

t.test('HEAD is judged as GET is, and no other word is a way round', async (t) => {
  await world.clearRecorder()
  t.equal((await world.call({ method: 'HEAD', path: '/admin/x', headers: member })).status, 403)
  t.equal((await world.call({ method: 'HEAD', path: '/datasets' })).status, 401)
  for (const method of ['PATCH', 'OPTIONS', 'TRACE', 'PROPFIND'])
    t.ok([403, 405].includes((await world.call({ method, path: '/datasets/1', headers: member })).status), method)
  for (const method of ['get', 'Get', 'delete', 'JEFF', 'GETS', 'G3T', 'GET/1']) {
    const lines = `Host: h\r\nx-oauth-access-token: ${world.users.member.jwt}\r\nConnection: close\r\n`
    const text = await world.raw(`${method} /admin/x HTTP/1.1\r\n${lines}\r\n`)
    t.match(text, /^HTTP\/1\.1 (?:400|405|501) /, method)
  }
  t.same(await world.recorded(), [], 'nothing arrived')
})

t.test('a trailing slash is another path, for every method', async (t) => {
  await world.clearRecorder()
  for (const [method, path] of [
    ['DELETE', '/datasets/1/'],
    ['POST', '/datasets/'],
    ['GET', '/datasets/'],
    ['GET', '/users/me/'],
  ] as const)
    t.ok([400, 404].includes((await world.call({ method, path, headers: member })).status), `${method} ${path}`)
  t.same(await world.recorded(), [], 'nothing arrived')
})
