import type { Test } from 'tap'
import { testBrokenStreams } from './broken-streams.ts'
import type { SdkFixture } from './fixture.ts'
import { testRefusals } from './refusals.ts'
import { testRetries } from './retries.ts'
import type { Sdk } from './sdk.ts'
import { testWholeAnswers } from './whole-answers.ts'

/** The scenes that every SDK has to pass. */
export function testSdk(t: Test, fixture: SdkFixture, sdk: Sdk): void {
  // Most of a scene is waiting.
  t.jobs = 6
  testWholeAnswers(t, fixture, sdk)
  testRefusals(t, fixture, sdk)
  testRetries(t, fixture, sdk)
  testBrokenStreams(t, fixture, sdk)
}
