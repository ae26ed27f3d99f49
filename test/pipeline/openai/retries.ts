import type { Test } from 'tap'
import type { SdkFixture } from './fixture.ts'
import { type Sdk, streamingWays, ways } from './sdk.ts'
import { assertAnswered } from './whole-answers.ts'
import { either } from './worker-scripts.ts'

const slow = { error: { message: 'Slow down.', type: 'rate_limit_error', code: 'slow_down' } }
const tooManyRequests = (retryAfter: string) => ({ status: 429, headers: { 'retry-after': retryAfter }, body: slow })

/** The retries of the SDKs, and how many of them reach the worker. */
export function testRetries(t: Test, fixture: SdkFixture, sdk: Sdk): void {
  const stumbles: Readonly<Record<string, readonly unknown[]>> = {
    'closed its connection': [{ end: 'fin' }],
    'reset its connection': [{ end: 'rst' }],
    'sent a comment and died': [{ comment: 'thinking' }, { end: 'fin' }],
    'answered 503 in HTML': [{ status: 503, headers: { 'content-type': 'text/html' }, body: '<h1>' }],
  }
  for (const [name, firstScript] of Object.entries(stumbles))
    t.test(`a worker that ${name} and recovers does not fail the call`, async (t) => {
      for (const { title, outcome, listRequests } of await fixture.play(sdk, ways, { firstScript, maxRetries: 1 })) {
        assertAnswered(t, outcome, title)
        t.equal(listRequests().length, 2, title)
      }
    })

  t.test('a failure before the first event is tried again, as often as the SDK is told', async (t) => {
    const scene = { script: either({ end: 'fin' }), maxRetries: 2 }
    for (const { title, outcome, listRequests } of await fixture.play(sdk, streamingWays, scene)) {
      t.match(outcome, { raised: { name: 'InternalServerError', code: 'upstream_unavailable' } }, title)
      t.equal(listRequests().length, 3, title)
    }
  })

  t.test('a rate limit passes with its Retry-After', async (t) => {
    for (const { title, outcome } of await fixture.play(sdk, ways, { script: either(tooManyRequests('7')) }))
      t.match(
        outcome,
        { raised: { name: 'RateLimitError', status: 429, code: 'slow_down', message: /Slow down/, retryAfter: '7' } },
        title,
      )
  })

  t.test('a rate limit is waited for, and then there is an answer', async (t) => {
    const scene = { firstScript: [tooManyRequests('1')], maxRetries: 1 }
    for (const { title, outcome, listRequests } of await fixture.play(sdk, ways, scene)) {
      assertAnswered(t, outcome, title)
      const [first, second, ...more] = listRequests().map(({ startedAtMs }) => startedAtMs)
      t.equal(more.length, 0, title)
      // Left to themselves the SDKs would come back after half a second.
      t.ok(Number(second) - Number(first) > 900, title)
    }
  })

  t.test('a conflict is not tried again', async (t) => {
    const body = { error: { message: 'The run is busy.', type: 'invalid_request_error', code: 'busy' } }
    const scene = { script: either({ status: 409, headers: { 'x-should-retry': 'true' }, body }), maxRetries: 2 }
    for (const { title, outcome, listRequests } of await fixture.play(sdk, ways, scene)) {
      t.match(outcome, { raised: { name: 'ConflictError', status: 409, code: 'busy', message: /busy/ } }, title)
      t.equal(listRequests().length, 1, title)
    }
  })

  t.test('an ordinary answer that breaks off is raised', async (t) => {
    const headers = { 'content-type': 'application/json', 'content-length': '100' }
    const script = either({ status: 200, headers, body: '{"id":' })
    const scene = { gateway: fixture.hastyGateway, script, maxRetries: 1 }
    for (const { title, way, outcome, listRequests } of await fixture.play(sdk, ways, scene)) {
      t.equal(outcome.raised?.name, sdk.halfAnswers[way], title)
      t.equal(listRequests().length, way === 'create' && sdk.createsAgain ? 2 : 1, title)
    }
  })
}
