import { setTimeout as sleep } from 'node:timers/promises'
import { type Dispatcher, Pool } from 'undici'
import type { Owner } from '../test/support/owner.ts'
import type { FlowName, Flows } from './flows.ts'

/**
 * One request: when it was due, by `performance.now()`, and how long after that its answer was complete. Its status is 0
 * if no answer came within the time-out.
 */
export type Sample = Readonly<{ flow: FlowName; dueMs: number; tookMs: number; status: number }>

/** Requests at an even pace, whether or not earlier ones have been answered. */
export type Load = Readonly<{
  samples: () => readonly Sample[]
  /** Connections that are open now. */
  connections: () => number
  /** Sends no more, and resolves when the last answer is there. */
  stop: () => Promise<void>
}>

const answerTimeoutMs = 20_000

const tickMs = 5

/** Connections of each flow. A flow that waits for its answers must not keep another one's requests from being sent. */
const maxConnections = 128

export function startLoad(owner: Owner, origin: string, flows: Flows, rate: number): Load {
  const options = { connections: maxConnections, headersTimeout: answerTimeoutMs, bodyTimeout: answerTimeoutMs }
  const pools = new Map(Object.keys(flows).map((name) => [name, new Pool(origin, options)]))
  owner.teardown(() => Promise.all([...pools.values()].map((pool) => pool.destroy())))
  const samples: Sample[] = []
  const waiting = new Set<Promise<void>>()
  const order = arrange(flows)
  const send = async (flow: FlowName, dueMs: number, number: number): Promise<void> => {
    const status = await ask(pools.get(flow), flows, flow, number)
    samples.push({ flow, dueMs, tookMs: performance.now() - dueMs, status })
  }
  let isStopping = false
  const startedMs = performance.now()
  const run = async (): Promise<void> => {
    for (let sent = 0; !isStopping; ) {
      const dueCount = ((performance.now() - startedMs) * rate) / 1_000
      for (; sent < dueCount; sent++) {
        const flow = order[sent % order.length] ?? 'public'
        const answered = send(flow, startedMs + (sent * 1_000) / rate, sent)
        waiting.add(answered)
        void answered.finally(() => waiting.delete(answered))
      }
      await sleep(tickMs)
    }
  }
  const running = run()
  return {
    samples: () => samples,
    connections: () => [...pools.values()].reduce((sum, { stats }) => sum + stats.connected, 0),
    stop: async () => {
      isStopping = true
      await running
      await Promise.all(waiting)
    },
  }
}

/** `x-request-id` carries the flow's name, so that the upstream knows which requests reached it. */
async function ask(pool: Pool | undefined, flows: Flows, name: FlowName, number: number): Promise<number> {
  const { path, method = () => 'GET', headers } = flows[name]
  try {
    const own = { ...headers(), 'x-request-id': `${name}-${number}` }
    const request = composeRequest(method(), path, own)
    if (!pool) throw new Error(`there is no flow ${name}`)
    const { statusCode, body } = await pool.request(request)
    await body.dump()
    return statusCode
  } catch (error) {
    if (!(error instanceof Error)) throw error
    return 0
  }
}

function composeRequest(method: string, path: string, headers: Readonly<Record<string, string>>) {
  const body = ['POST', 'PUT', 'PATCH'].includes(method) ? 'a body' : null
  return { method: method as Dispatcher.HttpMethod, path, headers, body } // flows name real methods
}

/** One round of turns: each flow has as many as its weight, spread evenly over the round. */
function arrange(flows: Flows): readonly FlowName[] {
  const turns = Object.entries(flows).flatMap(([name, { weight }]) =>
    // The keys of `Flows` are its names.
    Array.from({ length: weight }, (_, turn) => ({ name: name as FlowName, at: (turn + 0.5) / weight })),
  )
  return turns.sort((one, other) => one.at - other.at).map(({ name }) => name)
}
