import type { Test } from 'tap'
import { oauth } from '../../support/world.ts'
import { commandingAnswer } from './backend.ts'
import type { IngressFixture } from './fixture.ts'

/** Headers of a response must not command the proxy, whether the gateway forwards the response or the proxy fetches it. */
export function testCommands(t: Test, fixture: IngressFixture): void {
  const { member } = fixture.world.users
  for (const [method, path] of [
    ['GET', '/public/x?commands'],
    ['POST', '/agent/1/responses?commands'],
  ] as const)
    t.test(`the response to ${method} ${path} does not make the proxy fetch another path`, async (t) => {
      const refused = await fixture.front.ask({ path: '/admin/users', headers: oauth(member) })
      t.equal(refused.answer.status, 403)
      const headers = { ...oauth(member), 'content-type': 'application/json' }
      for (let round = 0; round < 2; round += 1) {
        const { answer, arrivals } = await fixture.front.ask({
          method,
          path,
          headers,
          ...(method === 'POST' && { body: '{"input":"x"}' }),
        })
        t.same([answer.status, answer.text], [200, commandingAnswer])
        t.same(
          arrivals.map(({ requestLine }) => requestLine),
          [`${method} ${path} HTTP/1.1`],
        )
      }
    })
}
