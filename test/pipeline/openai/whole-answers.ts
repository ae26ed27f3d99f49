import type { Test } from 'tap'
import { until } from '../../support/gateway.ts'
import { oauth } from '../../support/world.ts'
import { hasteMs, type SdkFixture, type Use } from './fixture.ts'
import { type Outcome, type Sdk, streamingWays, ways } from './sdk.ts'
import {
  either,
  firstHalf,
  joinScripts,
  markerlessHalf,
  numberEvents,
  secondHalf,
  unclosedHalf,
  unclosedMarkerlessHalf,
} from './worker-scripts.ts'

/** Calls that succeed, and events that an SDK's user must not notice. */
export function testWholeAnswers(t: Test, fixture: SdkFixture, sdk: Sdk): void {
  t.test('an answer arrives whole, as an object and as a stream', async (t) => {
    for (const { title, api, way, outcome, listRequests } of await fixture.play(sdk, ways, {})) {
      const { events, result } = outcome
      assertAnswered(t, outcome, title)
      if (way !== 'iterate') t.equal(result, api === 'chat' ? 'stop' : 'completed', title)
      if (way !== 'create') t.equal(events.at(-1), api === 'chat' ? 'chunk' : 'response.completed', title)
      t.equal(listRequests().length, 1, title)
    }
  })

  const pause = either({ waitMs: hasteMs.keepAlive * 2.5 })
  const quiet = joinScripts(either({ comment: 'thinking' }), pause, firstHalf, pause, secondHalf)
  const quietStreams = { 'a quiet stream': quiet, 'a quiet stream of numbered events': numberEvents(quiet) }
  for (const [name, script] of Object.entries(quietStreams))
    t.test(`${name} gets keep-alives that the user does not notice`, async (t) => {
      const gateway = fixture.attentiveGateway
      for (const { title, outcome } of await fixture.play(sdk, streamingWays, { gateway, script })) {
        t.equal(outcome.raised, undefined, title)
        t.equal(outcome.text, 'Hello', title)
      }
    })

  t.test('a last event without its blank line ends a stream that has all its chunks', async (t) => {
    const script = joinScripts(firstHalf, unclosedHalf)
    for (const use of await fixture.play(sdk, streamingWays, { script, maxRetries: 2 })) assertFinished(t, use)
  })

  const markerless = { 'without [DONE]': markerlessHalf, 'cut before its last blank line': unclosedMarkerlessHalf }
  for (const [name, half] of Object.entries(markerless))
    t.test(`a chat ${name} ends well on a route whose chats end by finish_reason`, async (t) => {
      const scene = { script: joinScripts(firstHalf, half), gateway: fixture.markerlessGateway, maxRetries: 2 }
      for (const use of await fixture.play(sdk, streamingWays, scene)) assertFinished(t, use)
    })

  t.test('an OAuth token goes into its own header, without the SDK’s Authorization', async (t) => {
    const headers = oauth(fixture.world.users.client)
    for (const { title, outcome } of await fixture.play(sdk, ['create'], { apiKey: undefined, headers }))
      assertAnswered(t, outcome, title)
  })

  t.test('a client that leaves a stream sets the worker free', async (t) => {
    const script = joinScripts(firstHalf, either({ end: 'hang' }))
    const uses = await fixture.play(sdk, ['iterate'], { script, leaveAfter: 1 })
    for (const { title, outcome, listRequests } of uses) {
      t.equal(outcome.raised, undefined, title)
      t.equal(outcome.events.length, 1, title)
      await until(() => listRequests()[0]?.aborted, `the worker’s release: ${title}`)
    }
  })
}

/** The whole text of the script, and a good end of it at the first attempt. */
function assertFinished(t: Test, { title, api, way, outcome, listRequests }: Use): void {
  t.match(outcome, { raised: undefined, failed: undefined, text: 'Hello' }, title)
  if (way === 'helper') t.equal(outcome.result, api === 'chat' ? 'stop' : 'completed', title)
  t.equal(outcome.events.at(-1), api === 'chat' ? 'chunk' : 'response.completed', title)
  t.equal(listRequests().length, 1, title)
}

/** The worker's own answer, and nothing raised. */
export function assertAnswered(t: Test, { raised, text }: Outcome, title: string): void {
  t.equal(raised, undefined, title)
  t.equal(text, 'Hello from agent 1. You said: hi', title)
}
