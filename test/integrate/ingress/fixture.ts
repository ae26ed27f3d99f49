import type { Test } from 'tap'
import { findFreePort } from '../../../demo/free-port.ts'
import { createVerifier, type Identity } from '../../../gateway/stages/pin/verify.ts'
import { type Answer, type Call, call } from '../../support/client.ts'
import { startTestGateway, until } from '../../support/gateway.ts'
import { startTcpProxy } from '../../support/tcp-proxy.ts'
import type { RecordedRequest, TestWorld } from '../../support/world.ts'
import { type Backend, startBackend } from './backend.ts'
import type { Places } from './examples.ts'

/** One way to the backend: by a proxy in front of a gateway, or by a gateway alone. */
export type Way = Readonly<{
  origin: string
  /** Asks, and resolves to the answer with what reached the backend because of it. */
  ask: (call: Call) => Promise<Readonly<{ answer: Answer; arrivals: readonly RecordedRequest[] }>>
  /** Verifies the identity as a backend that requires a header bound to method and target. */
  verify: (arrival: RecordedRequest) => Promise<Identity>
}>

/** A proxy in front of a gateway, the same gateway with nothing in front, and one backend behind both. */
export type IngressFixture = Readonly<{
  world: TestWorld
  backend: Backend
  front: Way
  /** Proxy mode: what every scene is measured by. */
  alone: Way
  /** The bytes that the proxy sent to the decision listener, and to the public one. */
  heardByDecision: () => string
  heardByPublic: () => string
  /** While it is cut, no request reaches the gateway, or the backend. */
  gateway: Wire
  backendWire: Wire
}>

export type Wire = Readonly<{ cut: () => void; mend: () => void }>

/** Starts the proxy between these ports; it listens when this resolves. */
export type StartFront = (t: Test, places: Places) => Promise<void>

/** A fixture of the test's own; the world may be shared. */
export async function startIngressFixture(t: Test, world: TestWorld, startFront: StartFront): Promise<IngressFixture> {
  const backend = await startBackend(t)
  const toBackend = await startTcpProxy(t, { port: backend.port })
  const alone = await startTestGateway(t, { world, upstreams: leadTo(backend.port) })
  const settings = { trustedProxies: ['127.0.0.1/32'] }
  const gateway = await startTestGateway(t, { world, settings, upstreams: leadTo(toBackend.port) })
  const toPublic = await tap(t, gateway.public)
  const toDecision = await tap(t, gateway.decision)
  const port = await findFreePort()
  const front = lead(`http://127.0.0.1:${port}`, gateway.admin, backend)
  await startFront(t, {
    front: port,
    public: toPublic.wire.port,
    decision: toDecision.wire.port,
    admin: Number(new URL(gateway.admin).port),
    backend: toBackend.port,
  })
  // Some listen before they know where to.
  const isUp = async () => (await front.ask({ path: '/status' })).answer.status === 200
  await until(isUp, 'the proxy leads to the backend', 10_000)
  return {
    world,
    backend,
    front,
    alone: lead(alone.public, alone.admin, backend),
    heardByDecision: toDecision.heard,
    heardByPublic: toPublic.heard,
    gateway: wireOf(toPublic.wire, toDecision.wire),
    backendWire: wireOf(toBackend),
  }
}

/** A wire to a listener, and all that goes in by it. */
async function tap(t: Test, url: string) {
  let heard = ''
  const hearClient = (bytes: Buffer): void => {
    heard += bytes.toString('latin1')
  }
  const wire = await startTcpProxy(t, { port: Number(new URL(url).port), hearClient })
  return { wire, heard: () => heard }
}

/** Every upstream is the one backend; headers bound to method and target prove what was judged. */
const leadTo = (port: number) =>
  Object.fromEntries(
    ['platform', 'agents', 'files', 'graphql', 'data'].map((name) => [
      name,
      { url: `http://127.0.0.1:${port}`, bind: true },
    ]),
  )

function lead(origin: string, admin: string, backend: Backend): Way {
  const verify = createVerifier({
    jwksUrl: `${admin}/.well-known/jwks.json`,
    audience: 'platform',
    requiresBinding: true,
  })
  return {
    origin,
    ask: async (request) => {
      const before = backend.list().length
      const answer = await call(origin, request)
      return { answer, arrivals: backend.list().slice(before) }
    },
    verify: ({ requestLine, headers }) => {
      const [method, url] = requestLine.split(' ')
      return verify({ method, url, headers: new Headers(headers.map(([name, value]) => [name, value])) })
    },
  }
}

type Cuttable = Readonly<{ refuse: () => void; cut: () => void; accept: () => void }>

const wireOf = (...proxies: readonly Cuttable[]): Wire => ({
  cut: () => {
    for (const proxy of proxies) {
      proxy.refuse()
      proxy.cut()
    }
  },
  mend: () => {
    for (const proxy of proxies) proxy.accept()
  },
})
