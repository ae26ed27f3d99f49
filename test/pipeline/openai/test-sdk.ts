import type { Test } from 'tap'
import { testBrokenStreams } from './broken-streams.ts'
import { testRefusals } from './refusals.ts'
import { testRetries } from './retries.ts'
import type { Sdk } from './sdk.ts'
import type { Stage } from './stage.ts'
import { testWholeAnswers } from './whole-answers.ts'

/** The scenes that every SDK has to pass. */
export function testSdk(t: Test, stage: Stage, sdk: Sdk): void {
  // Most of a scene is waiting.
  t.jobs = 6
  testWholeAnswers(t, stage, sdk)
  testRefusals(t, stage, sdk)
  testRetries(t, stage, sdk)
  testBrokenStreams(t, stage, sdk)
}
