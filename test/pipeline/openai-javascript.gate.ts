import OpenAI6 from 'openai-6'
import { VERSION as version6 } from 'openai-6/version'
import OpenAINewest from 'openai-newest'
import { VERSION as versionNewest } from 'openai-newest/version'
import t from 'tap'
import { startSdkFixture } from './openai/fixture.ts'
import { javascriptSdk } from './openai/javascript.ts'
import { testSdk } from './openai/test-sdk.ts'

const fixture = await startSdkFixture(t)

t.test(`openai ${version6} for JavaScript`, async (t) => testSdk(t, fixture, javascriptSdk(OpenAI6)))

// Version 7 asks for Node 22, but runs on 20.19, too. The parts used here are as in version 6.
const newest = javascriptSdk(OpenAINewest as unknown as typeof OpenAI6)
t.test(`openai ${versionNewest} for JavaScript`, async (t) => testSdk(t, fixture, newest))
