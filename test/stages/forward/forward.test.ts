import t, { type Test } from 'tap'
import { UpstreamError } from '../../../gateway/http/engine.ts'
import { createForward } from '../../../gateway/stages/forward/forward.ts'
import type { LoadBalancer } from '../../../gateway/stages/locate/upstream.ts'
import { call } from '../../support/client.ts'
import { startFaultyGateway } from '../../support/faulty-gateway.ts'
import { openRoute } from '../../support/gateway.ts'

/** The reports to the addresses about one request, of which each attempt ends like this. */
async function forwardTo(t: Test, send: () => Promise<never>) {
  const told: string[] = []
  const attempt = (origin: string) => ({
    origin,
    answered: () => told.push(`${origin} answered`),
    failed: () => told.push(`${origin} failed`),
    end: () => told.push(`${origin} ended`),
  })
  const balancer: LoadBalancer = {
    pick: () => attempt('http://a'),
    pickOther: ({ length }) => (length === 1 ? attempt('http://b') : undefined),
  }
  const forward = createForward(send)
  const gateway = await startFaultyGateway(t, {
    routes: [openRoute],
    upstreams: { platform: { url: 'http://127.0.0.1:9' } },
    spoil: () => ({
      forward: (permit, upstream, ...rest) => forward(permit, { ...upstream, balancer }, ...rest),
    }),
  })
  const { status } = await call(gateway.public, { path: '/open' })
  return { status, told }
}

t.test('an attempt that fails ends at its address, and the other one is tried', async (t) => {
  const send = () => Promise.reject(new UpstreamError('unreachable'))
  const { status, told } = await forwardTo(t, send)
  t.equal(status, 503)
  t.same(told, ['http://a failed', 'http://a ended', 'http://b failed', 'http://b ended'])
})

t.test(
  'a bug that is thrown at once ends the attempt like one that comes later, and is not a fault of the address',
  async (t) => {
    const atOnce = () => {
      throw new TypeError('planted')
    }
    for (const send of [atOnce, async () => atOnce()]) {
      const { status, told } = await forwardTo(t, send)
      t.equal(status, 500)
      t.same(told, ['http://a ended'])
    }
  },
)
