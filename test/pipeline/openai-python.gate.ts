import t from 'tap'
import { type SdkFixture, startSdkFixture } from './openai/fixture.ts'
import { testPython } from './openai/python.ts'
import { testSdk } from './openai/test-sdk.ts'

let fixture: Promise<SdkFixture> | undefined

for (const name of ['openai-1', 'openai-newest'] as const)
  testPython(t, name, async (own, sdk) => {
    // Without Python no server needs to start.
    fixture ??= startSdkFixture(t)
    testSdk(own, await fixture, sdk)
  })
