import type { Test } from 'tap'
import type { Call } from '../../support/client.ts'
import { bearer, oauth } from '../../support/world.ts'
import { testSameArrival } from './arrivals.ts'
import { ownAnswer } from './backend.ts'
import type { IngressFixture } from './fixture.ts'
import type { Manners } from './scenes.ts'

/** A client that gets these words has a body that only the backend may have. */
export const bodyMark = 'for the backend alone'

/** Headers of a request that mean nothing to the gateway, and all to a backend. */
export const plainHeaders = {
  accept: 'application/json',
  'accept-language': 'de',
  'content-type': 'application/json',
  'user-agent': 'scene/1',
  cookie: 'theme=dark; other=1',
  'idempotency-key': 'k-1',
  traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
}

/** An allowed request and its answer pass as they do behind a gateway alone. */
export function testAllowed(t: Test, fixture: IngressFixture, manners: Manners): void {
  const { users, serviceAccounts, organizations } = fixture.world
  const body = JSON.stringify({ name: bodyMark, more: 'x'.repeat(200_000) })
  const calls: Readonly<Record<string, Call>> = {
    'by an OAuth token': { path: '/datasets?page=2&q=a%20b%2Fc', headers: oauth(users.member) },
    'by an API token': { path: '/datasets/7', headers: bearer(serviceAccounts.robot.apiKey) },
    'for an organization that is named': {
      path: '/datasets',
      headers: { ...oauth(users.owner), 'x-organization-id': String(organizations.globex.id) },
    },
    'of HEAD': { method: 'HEAD', path: '/datasets', headers: oauth(users.member) },
    'of POST with a body': { method: 'POST', path: '/datasets', headers: oauth(users.owner), body },
    'of PATCH with a chunked body': {
      method: 'PATCH',
      path: '/datasets/7',
      headers: { ...oauth(users.owner), 'transfer-encoding': 'chunked' },
      body,
    },
    'of DELETE': { method: 'DELETE', path: '/datasets/7', headers: oauth(users.owner) },
    'without an organization': { path: '/public/x', headers: oauth(users.homeless) },
    // All of 127.0.0.0/8 is loopback on Linux alone.
    'from another address': {
      path: '/datasets',
      headers: oauth(users.member),
      ...(process.platform === 'linux' && { localAddress: '127.0.0.2' }),
    },
    'of a public route': { path: '/status' },
    'of a public route with a credential': { path: '/status', headers: oauth(users.owner) },
  }
  t.test('a JWT of nearly 16 KiB passes', async (t) => {
    const { sub, email } = users.member
    const groups = Array.from(
      { length: 290 },
      (_, index) => `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`,
    )
    const jwt = await fixture.world.mint({ sub, email, claims: { groups } })
    t.ok(jwt.length > 15_000 && jwt.length < 16_384, `${jwt.length} bytes`)
    const { answer } = await fixture.front.ask({ path: '/datasets', headers: { ...plainHeaders, ...oauth({ jwt }) } })
    t.equal(answer.status, 200)
  })

  for (const [name, request] of Object.entries(calls))
    t.test(`a request ${name} passes as in proxy mode`, async (t) => {
      await testSameArrival(t, fixture, manners, { ...request, headers: { ...plainHeaders, ...request.headers } })
    })

  t.test('an answer of the backend is not taken for one of the gateway', async (t) => {
    for (const status of [201, 400, 401, 403, 404, 429, 500, 502, 503, 504]) {
      const request = { path: `/public/answers/${status}`, headers: oauth(users.member) }
      const { answer } = await fixture.front.ask(request)
      t.same([answer.status, answer.text, answer.headers['x-own']], [status, ownAnswer, ownAnswer])
    }
  })

  t.test('the gateway’s own endpoints answer', async (t) => {
    const request = { path: '/users/me', headers: oauth(users.member) }
    const [front, alone] = await Promise.all([fixture.front.ask(request), fixture.alone.ask(request)])
    t.equal(front.answer.status, 200)
    t.equal(front.answer.json().id, alone.answer.json().id)
  })

  t.test('no body was told to the decision listener', async (t) => {
    t.notMatch(fixture.heardByDecision(), bodyMark)
  })
}
