import type { Test } from 'tap'
import type { RecordedRequest } from '../../../demo/backends/record-requests.ts'
import type { JsonValue } from '../../support/client.ts'
import { startTestGateway } from '../../support/gateway.ts'
import { modelRoutes } from '../../support/streams.ts'
import { startTestWorld, type TestWorld } from '../../support/world.ts'
import { type AgentBackend, firstScriptHeader, startAgentBackend } from './agent-backend.ts'
import { type Api, apis, type Outcome, type Sdk, type Way } from './sdk.ts'
import type { Script } from './worker-scripts.ts'

/** One use of an SDK. */
export type Scene = Readonly<{
  /** The agent's worker plays this; without one it answers as it likes. */
  script?: Script
  /** The worker plays this at the first request, and only then the other. */
  firstScript?: readonly JsonValue[]
  maxRetries?: number
  leaveAfter?: number
  /** The robot's key, unless it says another; undefined for none. */
  apiKey?: string | undefined
  headers?: Readonly<Record<string, string>>
  gateway?: string
  path?: string
}>

/** One use of an SDK that has come to its end. */
export type Use = Readonly<{
  /** For messages of assertions. */
  title: string
  api: Api
  way: Way
  outcome: Outcome
  /** The requests that reached the worker, retries included. */
  listRequests: () => readonly RecordedRequest[]
}>

export type SdkFixture = Readonly<{
  world: TestWorld
  backend: AgentBackend
  /** A gateway's settings for the world's database, which has time: on a busy machine a lookup takes a while. */
  database: Readonly<Record<string, unknown>>
  /** With the time-outs of production. */
  gateway: string
  /** Sends keep-alives soon. A slow worker of a busy machine meets no limit. */
  attentiveGateway: string
  /** Sends keep-alives soon, and gives an answer up that has begun and falls silent. */
  hastyGateway: string
  /** Gives an answer up that does not begin. */
  impatientGateway: string
  /** Its chat backends send no [DONE]. */
  markerlessGateway: string
  /** A gateway whose upstream does not run. */
  lonelyGateway: string
  /** Uses the SDK in each of these ways, on both APIs and with each of its clients, all at once. */
  play: (sdk: Sdk, ways: readonly Way[], scene: Scene) => Promise<readonly Use[]>
}>

/** The silence after which these gateways send a keep-alive, and that after which they give an answer up. */
export const hasteMs = { keepAlive: 200, silence: 4_000 }

const markerlessRoutes = modelRoutes.map((route) =>
  route.id === 'chat' ? { ...route, stream: { kind: 'chat', end: 'finishReason' } } : route,
)

/** Starts whatever an SDK may meet, short of the gateway's own end. */
export async function startSdkFixture(t: Test): Promise<SdkFixture> {
  const world = await startTestWorld(t)
  const backend = await startAgentBackend(t)
  const upstreams = { agents: { url: backend.url } }
  const { keepAlive: keepAliveMs, silence } = hasteMs
  const database = { url: world.databaseUrl, connectTimeoutMs: 15_000, queryTimeoutMs: 15_000 }
  const startWith = (timeouts: Readonly<Record<string, number>>) =>
    startTestGateway(t, { world, upstreams, settings: { database, timeouts } })
  const [steady, attentive, hasty, impatient, markerless, lonely] = await Promise.all([
    startWith({}),
    startWith({ keepAliveMs }),
    startWith({ keepAliveMs, streamIdleMs: silence, idleMs: silence }),
    startWith({ firstByteMs: silence }),
    startTestGateway(t, { world, upstreams, settings: { database }, routes: markerlessRoutes }),
    startTestGateway(t, { world, settings: { database } }),
  ])
  const standard = { apiKey: world.serviceAccounts.robot.apiKey, gateway: steady.public, path: '/agent/1' }
  let count = 0

  const playOne = async (sdk: Sdk, api: Api, way: Way, client: string, scene: Scene): Promise<Use> => {
    const { script, firstScript, maxRetries = 0, leaveAfter, ...rest } = { ...standard, ...scene }
    const requestId = `sdk-${count++}`
    const outcome = await sdk.ask(
      {
        api,
        way,
        baseUrl: rest.gateway + rest.path,
        apiKey: rest.apiKey,
        headers: {
          'x-request-id': requestId,
          ...(firstScript && { [firstScriptHeader]: JSON.stringify(firstScript) }),
          ...rest.headers,
        },
        metadata: script && { script: script[api] },
        maxRetries,
        leaveAfter,
      },
      client,
    )
    return { title: `${client} ${api} ${way}`, api, way, outcome, listRequests: () => backend.listRequests(requestId) }
  }

  return {
    world,
    backend,
    database,
    gateway: steady.public,
    attentiveGateway: attentive.public,
    hastyGateway: hasty.public,
    impatientGateway: impatient.public,
    markerlessGateway: markerless.public,
    lonelyGateway: lonely.public,
    play: (sdk, ways, scene) =>
      Promise.all(
        sdk.clients.flatMap((client) =>
          apis.flatMap((api) => ways.map((way) => playOne(sdk, api, way, client, scene))),
        ),
      ),
  }
}
