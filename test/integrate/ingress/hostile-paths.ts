import type { Test } from 'tap'
import { oauth } from '../../support/world.ts'
import type { IngressFixture } from './fixture.ts'

/** Targets that servers read in different ways. */
const targets = [
  '/public/../admin/x',
  '/public/%2e%2e/admin/x',
  '/public/.%2e/admin/x',
  '/public/%252e%252e/admin/x',
  '/public/..%2fadmin/x',
  '/public/%2e%2e%2fadmin%2fx',
  '/public/..\\admin/x',
  '/public/..%5cadmin/x',
  '/public/..;/admin/x',
  '/public/..;a=b/admin/x',
  '/public/x;/../../admin/x',
  '/public/./x',
  '/public//x',
  '//public/x',
  '//admin/x',
  '/public/x%2fy',
  '/public/x;v=1/y',
  '/public/x%00',
  '/public/x%0d%0aX-Gateway-Identity:%20y',
  '/public/%c0%ae%c0%ae/admin/x',
  '/public/%zz',
  '/public/x%20y',
  '/public/x%3Fy',
  '/public/x%23y',
  '/public/%41',
  '/public/x?y=/../../admin/x&z=%2e%2e',
  '/public/x#/admin',
  '/public/x/',
  '/PUBLIC/x',
  '/status/../admin/x',
  '/status/..;/admin/x',
  '/users/me/../../admin/x',
  '/agent/../admin/x',
  '/agent/..%2fadmin/x',
]

/**
 * A proxy may normalise a target or refuse it, but not after the gateway has judged it. The identity that arrives is
 * bound to the target, and the owners' path is not the member's.
 */
export function testHostilePaths(t: Test, fixture: IngressFixture): void {
  t.test('the judged path is the one that arrives, however it is written', async (t) => {
    const headers = oauth(fixture.world.users.member)
    for (const path of targets) {
      const alone = await fixture.alone.ask({ path, headers })
      const { answer, arrivals } = await fixture.front.ask({ path, headers })
      t.comment(`${path}: ${answer.status}, ${alone.answer.status} in proxy mode`)
      if (answer.status !== 200) {
        t.ok(answer.status >= 300 && answer.status < 500, `${path}: ${answer.status}`)
        t.same(arrivals, [], `${path} does not arrive`)
        if (alone.answer.status === 200) t.fail(`${path} is refused`)
        continue
      }
      t.equal(arrivals.length, 1, path)
      for (const arrival of arrivals) {
        t.match(arrival.requestLine, /^GET \/public\//, path)
        await t.resolves(fixture.front.verify(arrival), path)
      }
    }
  })
}
