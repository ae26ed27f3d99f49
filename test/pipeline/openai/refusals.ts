import type { Test } from 'tap'
import { oauth } from '../../support/world.ts'
import type { Scene, SdkFixture } from './fixture.ts'
import { type Sdk, ways } from './sdk.ts'
import { either } from './worker-scripts.ts'

/** A scene, and what is raised in it, whatever the API and the way. */
type Refusal = Readonly<{ scene: Scene; raised: Readonly<Record<string, unknown>>; requests?: number }>

const unavailable = {
  name: 'InternalServerError',
  status: 503,
  code: 'upstream_unavailable',
  type: 'server_error',
  message: /The upstream is unavailable\./,
}
const error = (message: string, type: string, code: string) => ({ error: { message, type, code } })
const answer = (status: number, body: unknown, headers = {}) => ({ script: either({ status, headers, body }) })

/** Answers without a first event: each is raised as the SDK's own kind of exception. */
export function testRefusals(t: Test, fixture: SdkFixture, sdk: Sdk): void {
  for (const [name, { scene, raised, requests = 0 }] of Object.entries(listRefusals(fixture)))
    t.test(`${name} is raised`, async (t) => {
      for (const { title, outcome, listRequests } of await fixture.play(sdk, ways, scene)) {
        t.match(outcome.raised, raised, title)
        t.same([outcome.text, outcome.events], ['', []], title)
        t.equal(listRequests().length, requests, title)
      }
    })
}

const listRefusals = (fixture: SdkFixture): Readonly<Record<string, Refusal>> => ({
  'a worker that closes its connection': {
    scene: { script: either({ end: 'fin' }) },
    raised: unavailable,
    requests: 1,
  },
  'a worker that resets its connection': {
    scene: { script: either({ end: 'rst' }) },
    raised: unavailable,
    requests: 1,
  },
  'a worker that says nothing but comments': {
    scene: { script: either({ comment: 'thinking' }, { end: 'fin' }) },
    raised: unavailable,
    requests: 1,
  },
  'a worker that cannot be reached': { scene: { gateway: fixture.lonelyGateway }, raised: unavailable },
  'a worker that says nothing at all': {
    scene: { gateway: fixture.impatientGateway, script: either({ waitMs: 60_000 }) },
    raised: {
      name: 'InternalServerError',
      status: 503,
      code: 'upstream_timeout',
      message: /The upstream did not answer in time\./,
    },
    requests: 1,
  },
  'a 5xx in HTML': {
    scene: answer(502, '<h1>Bad Gateway</h1>', { 'content-type': 'text/html' }),
    raised: {
      name: 'InternalServerError',
      status: 502,
      code: 'upstream_error',
      message: /The upstream failed to answer\./,
    },
    requests: 1,
  },
  'a 5xx of the worker’s own': {
    scene: answer(500, error('The model is on fire.', 'server_error', 'model_error')),
    raised: { name: 'InternalServerError', status: 500, code: 'model_error', message: /The model is on fire\./ },
    requests: 1,
  },
  'a 4xx of the worker’s own': {
    scene: { ...answer(400, error('The input is too long.', 'invalid_request_error', 'too_long')), maxRetries: 2 },
    raised: { name: 'BadRequestError', status: 400, code: 'too_long', message: /The input is too long\./ },
    requests: 1,
  },
  'a bad key': {
    scene: { apiKey: 'sk-something', maxRetries: 2 },
    raised: {
      name: 'AuthenticationError',
      status: 401,
      code: 'unauthenticated',
      message: /Authentication is required: the credential is missing, invalid or expired\./,
    },
  },
  'no credential': {
    scene: { apiKey: undefined, maxRetries: 2 },
    raised: { name: 'AuthenticationError', status: 401, code: 'unauthenticated' },
  },
  'an OAuth token beside the SDK’s key': {
    scene: { headers: oauth(fixture.world.users.client), maxRetries: 2 },
    raised: { name: 'BadRequestError', status: 400, code: 'ambiguous_credentials', message: /Send one credential/ },
  },
  'a role that does not suffice': {
    scene: { apiKey: undefined, headers: oauth(fixture.world.users.homeless), maxRetries: 2 },
    raised: {
      name: 'PermissionDeniedError',
      status: 403,
      code: 'role_insufficient',
      message: /Your role does not permit this action\./,
    },
  },
  'another organization’s agent': {
    scene: { path: `/agent/${fixture.world.agents.globex}`, maxRetries: 2 },
    raised: { name: 'NotFoundError', status: 404, code: 'resource_not_found', message: /The resource does not exist/ },
  },
  'a path that is not served': {
    scene: { path: '/v1', maxRetries: 2 },
    raised: { name: 'NotFoundError', status: 404, code: 'route_not_found' },
  },
})
