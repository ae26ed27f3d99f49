import { randomUUID } from 'node:crypto'
import { Agent } from 'node:http'
import type { Test } from 'tap'
import { call, type JsonValue } from './client.ts'
import { until } from './gateway.ts'
import { type ServeOptions, type Serving, startServing } from './serve.ts'

/** The pid of each worker, by its number; the newest process of a number counts. */
export const workersOf = ({ log }: Pick<Serving, 'log'>): ReadonlyMap<number, number> =>
  new Map(log().flatMap(({ msg, worker, pid }) => (msg === 'worker started' ? [[worker, pid] as const] : [])))

/** A group of two, unless the settings say otherwise; its log is a little behind its word. */
export async function startGroup(t: Test, options: Partial<ServeOptions> = {}): Promise<Serving> {
  const serving = await startServing(t, { ...options, settings: { workers: 2, ...options.settings } })
  await until(() => workersOf(serving).size === 2, 'the lines of both workers')
  return serving
}

export const pidOf = (serving: Pick<Serving, 'log'>, worker: number): number => {
  const pid = workersOf(serving).get(worker)
  // A test must never signal pid 0, which would be itself.
  if (pid === undefined) throw new Error(`there is no worker ${worker}`)
  return pid
}

export const nowhere = { path: '/nowhere' }

/** Such a request under a name of its own: lines of earlier requests may still be on their way. */
export const nameRequest = () => ({ ...nowhere, headers: { 'x-request-id': randomUUID() } })

/** The numbers of the workers that have answered requests, or those requests that have this name. */
export const busyWorkers = ({ log }: Serving, name?: string): ReadonlySet<number> =>
  new Set(
    log().flatMap(({ msg, worker, requestId }) =>
      msg === 'request' && (name === undefined || requestId === name) ? [worker as number] : [],
    ),
  )

/** Asks until every one of two workers has answered. */
export async function visitBoth(serving: Serving): Promise<void> {
  const visit = nameRequest()
  await until(async () => {
    await call(serving.public, visit)
    return busyWorkers(serving, visit.headers['x-request-id']).size === 2
  }, 'an answer of each worker')
}

/** The values of one metric, by their labels as they are written. */
export async function readMetric(
  { admin }: Pick<Serving, 'admin'>,
  name: string,
): Promise<Readonly<Record<string, number>>> {
  return readMetrics((await call(admin, { path: '/metrics' })).text)(name)
}

/** The values of each metric of one scrape, likewise. */
export const readMetrics =
  (text: string) =>
  (name: string): Readonly<Record<string, number>> => {
    const lines = [...text.matchAll(new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, 'gm'))]
    return Object.fromEntries(lines.map(([, labels = '', value]) => [labels, Number(value)]))
  }

/** Several clients, each asking again and again. The agent keeps connections, for requests that need none of their own. */
export async function askAtOnce(
  clients: number,
  times: number,
  ask: (agent: Agent) => Promise<unknown>,
): Promise<void> {
  const agent = new Agent({ keepAlive: true })
  const askAgain = async (): Promise<void> => {
    for (let count = 0; count < times; count++) await ask(agent)
  }
  await Promise.all(Array.from({ length: clients }, askAgain)).finally(() => agent.destroy())
}

export const countRestarts = async (serving: Serving): Promise<number> =>
  (await readMetric(serving, 'sallyport_worker_restarts_total'))[''] ?? 0

export const countRequests = async (serving: Serving): Promise<number> =>
  Object.values(await readMetric(serving, 'sallyport_requests_total')).reduce((sum, value) => sum + value, 0)

export const readiness = async ({ admin }: Serving): Promise<Readonly<{ status: number; checks: JsonValue }>> => {
  const answer = await call(admin, { path: '/readyz' })
  return { status: answer.status, checks: answer.json().checks }
}
