import t from 'tap'
import { testPython } from './openai/python.ts'
import { type Stage, startStage } from './openai/stage.ts'
import { testSdk } from './openai/test-sdk.ts'

let stage: Promise<Stage> | undefined

for (const name of ['openai-1', 'openai-newest'] as const)
  testPython(t, name, async (own, sdk) => {
    // Without Python no server needs to start.
    stage ??= startStage(t)
    testSdk(own, await stage, sdk)
  })
