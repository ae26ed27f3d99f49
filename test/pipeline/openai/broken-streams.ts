import type { Test } from 'tap'
import type { StreamFailureCode } from '../../../gateway/base/errors/stream-failure.ts'
import { call } from '../../support/client.ts'
import { startTestGateway, until } from '../../support/gateway.ts'
import { populate } from '../../support/population.ts'
import { startServing } from '../../support/serve.ts'
import { hasteMs, type Scene, type SdkFixture, type Use } from './fixture.ts'
import { type Sdk, streamingWays } from './sdk.ts'
import { either, finishReason, firstHalf, halfEvent, joinScripts, unclosedEnd } from './worker-scripts.ts'

/** Streams that die: a program that goes through one is told, in the end, that it has not got everything. */
export function testBrokenStreams(t: Test, fixture: SdkFixture, sdk: Sdk): void {
  const after = (...steps: readonly unknown[]): Scene => ({ script: joinScripts(firstHalf, either(...steps)) })
  const within: Scene = { script: joinScripts(firstHalf, halfEvent, either({ end: 'fin' })) }
  const deaths: Readonly<Record<string, readonly [Scene, StreamFailureCode]>> = {
    'closes its connection': [after({ end: 'fin' }), 'worker_disconnected'],
    'resets its connection': [after({ waitMs: 100 }, { end: 'rst' }), 'worker_disconnected'],
    'ends without a terminal event': [after(), 'worker_disconnected'],
    'breaks off within an event': [within, 'worker_disconnected'],
    'closes its connection before its last blank line': [
      { script: joinScripts(firstHalf, unclosedEnd, either({ end: 'fin' })) },
      'worker_disconnected',
    ],
    'closes its connection behind a finish_reason that should end it': [
      { script: joinScripts(firstHalf, finishReason, either({ end: 'fin' })), gateway: fixture.markerlessGateway },
      'worker_disconnected',
    ],
    'ends without a finish_reason that should end it': [
      { ...after(), gateway: fixture.markerlessGateway },
      'worker_disconnected',
    ],
    'falls silent': [{ ...after({ end: 'hang' }), gateway: fixture.hastyGateway }, 'upstream_timeout'],
  }
  for (const [name, [scene, code]] of Object.entries(deaths))
    t.test(`a worker that ${name} mid-stream is told of, once`, async (t) => {
      // No SDK tries a broken stream again, since its user has received events.
      for (const use of await fixture.play(sdk, streamingWays, { maxRetries: 2, ...scene }))
        assertBroken(t, sdk, use, code, 'Hel')
    })

  // On a busy machine a keep-alive is late by a second.
  const wait = { waitMs: hasteMs.keepAlive * 10 }
  const silences: Readonly<Record<string, readonly [Scene, StreamFailureCode]>> = {
    'closes its connection': [
      { script: either({ comment: 'thinking' }, wait, { end: 'fin' }), gateway: fixture.attentiveGateway },
      'worker_disconnected',
    ],
    'falls silent': [{ script: either({ end: 'hang' }), gateway: fixture.hastyGateway }, 'upstream_timeout'],
  }
  for (const [name, [scene, code]] of Object.entries(silences))
    t.test(`a worker that ${name} after keep-alives alone is told of`, async (t) => {
      for (const use of await fixture.play(sdk, streamingWays, { ...scene, maxRetries: 2 }))
        assertBroken(t, sdk, use, code, '')
    })

  t.test('a program whose token is revoked mid-stream is told, once', async (t) => {
    const { world, backend, database } = fixture
    const gateway = await startTestGateway(t, {
      world,
      upstreams: { agents: { url: backend.url } },
      settings: { database },
    })
    const { addAccount, writer } = await populate(t, world)
    const { tokenId, headers } = await addAccount('revoked')
    const apiKey = headers.authorization?.replace('Bearer ', '')
    const open = fixture.play(sdk, streamingWays, { ...after({ end: 'hang' }), gateway: gateway.public, apiKey })
    const count = 2 * sdk.clients.length * streamingWays.length
    const metric = new RegExp(`^sallyport_streams_open ${count}$`, 'm')
    await until(async () => metric.test((await call(gateway.admin, { path: '/metrics' })).text), 'every stream')
    await writer.query('delete from auth_access_tokens where id = $1', [tokenId])
    for (const use of await open) assertBroken(t, sdk, use, 'access_revoked', 'Hel')
  })

  t.test('a gateway that is stopped tells of its open streams', async (t) => {
    const settings = { database: fixture.database, drain: { delayMs: 0, timeoutMs: 500 } }
    const serve = await startServing(t, { world: fixture.world, upstream: fixture.backend.url, settings })
    const gateway = serve.public
    const open = fixture.play(sdk, streamingWays, { ...after({ end: 'hang' }), gateway })
    const waiting = fixture.play(sdk, streamingWays, {
      script: either({ comment: 'thinking' }, { end: 'hang' }),
      gateway,
    })
    const count = 2 * sdk.clients.length * 2 * streamingWays.length
    const metric = new RegExp(`^sallyport_streams_open ${count}$`, 'm')
    await until(async () => metric.test((await call(serve.admin, { path: '/metrics' })).text), 'every stream', 15_000)
    process.kill(serve.pid, 'SIGTERM')
    for (const use of await open) assertBroken(t, sdk, use, 'gateway_draining', 'Hel')
    for (const { title, outcome } of await waiting)
      t.match(outcome, { raised: { name: 'InternalServerError', status: 503, code: 'gateway_draining' } }, title)
    t.equal(await serve.ended, 0)
  })
}

/** The failure is the last thing that a program hears, by the means of its API, after the text that did come. */
function assertBroken(t: Test, sdk: Sdk, use: Use, code: StreamFailureCode, text: string): void {
  const { title, api, way, outcome, listRequests } = use
  t.equal(listRequests().length, 1, title)
  const message = 'The response ended before it was complete.'
  if (api === 'chat') {
    // An exception, to whom goes through the stream and to the helper alike.
    const raised = { name: 'APIError', message, type: 'server_error', code: 'server_error', reason: code }
    t.match(outcome.raised, raised, title)
    t.same([outcome.text, outcome.result], [text, undefined], title)
    return
  }
  // An event, which a program must look at: the SDKs raise nothing for it in a plain loop.
  t.equal(outcome.events.at(-1), 'response.failed', title)
  t.equal(outcome.events.filter((type) => type === 'response.failed').length, 1, title)
  t.match(
    outcome.failed,
    {
      status: 'failed',
      error: { code: 'server_error', message },
      metadata: { x_service_error_code: code, x_service_error_message: String },
    },
    title,
  )
  const final = [outcome.text, outcome.result, outcome.raised?.name]
  if (way === 'iterate') t.same(final, [text, undefined, undefined], title)
  else if (sdk.failedFinal === 'status') t.same(final, ['', 'failed', undefined], title)
  else t.same(final, [text, undefined, 'RuntimeError'], title)
}
