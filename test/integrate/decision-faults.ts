import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { openDocuments, type RealDecisionPoint } from '../support/decision-points.ts'
import { until } from '../support/gateway.ts'
import type { Owner } from '../support/owner.ts'
import { startFaultyLink } from './faulty-link.ts'

export const faultNames = ['killed', 'frozen', 'slow', 'garbled'] as const

type FaultName = (typeof faultNames)[number]

/** A request under load, and what became of it. */
type Sent = Readonly<{
  document: string
  startedMs: number
  endedMs: number
  status: number
  /** The time at which the backend got it. */
  arrivedMs: number | undefined
}>

export type FaultFigures = Readonly<{
  fault: FaultName
  /** Counts of answers before, during and after the fault. */
  permittedBefore: number
  during: number
  after: number
  permittedAfter: number
  /** Requests that reached the backend without a yes of the decision point. */
  unproven: number
  /** Times of the answers that the fault touched. */
  millis: readonly number[]
  /** Time from the end of the fault to the first permit. */
  recoveryMs: number
}>

/** A backend that notes the time at which each numbered request arrives. */
export async function startCountingBackend(owner: Owner) {
  const arrivals = new Map<number, number>()
  const server = createServer((request, response) => {
    arrivals.set(Number(new URL(request.url ?? '', 'http://backend').searchParams.get('n')), performance.now())
    request.resume().on('end', () => response.end('ok'))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  owner.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return { url: `http://127.0.0.1:${port}`, arrivals }
}

type CountingBackend = Awaited<ReturnType<typeof startCountingBackend>>

const routeThrough = (pdp: 'direct' | 'linked') => ({
  id: pdp,
  match: { path: `/${pdp}/:id` },
  surface: 'platform',
  upstream: 'platform',
  require: { role: 'org-member' },
  decision: { pdp, action: 'viewer', resource: { type: 'document', param: 'id' } },
})

/** Routes that ask one decision point in two ways: directly, and over the link that a test disturbs. */
export const faultRoutes = [routeThrough('direct'), routeThrough('linked')]

export async function linkDecisionPoint(owner: Owner, { url, headers }: RealDecisionPoint) {
  const link = await startFaultyLink(owner, url)
  const settings = { direct: { url, headers, cacheMs: 0 }, linked: { url: link.url, headers, cacheMs: 0 } }
  return { link, settings }
}

export type FaultFixture = Readonly<{
  real: RealDecisionPoint
  link: Awaited<ReturnType<typeof startFaultyLink>>
  backend: CountingBackend
  gateway: string
  headers: Readonly<Record<string, string>>
}>

const callers = 64
const restMs = 20
/** Permits to wait for before and after a fault: few, since a server that has just started answers few in time. */
const fewPermits = 50

/** Callers ask for documents in turn, no two at a time for the same one. Every fourth document is shut. */
function startLoad(owner: Owner, { gateway, headers, backend }: FaultFixture, way: 'direct' | 'linked') {
  const pool = new Pool(gateway, { connections: callers, keepAliveTimeout: 1_000, keepAliveMaxTimeout: 1_000 })
  const sent: Sent[] = []
  let isOver = false
  let drawn = 0
  const ask = async (): Promise<void> => {
    const number = backend.arrivals.size * 1_000_000 + drawn
    const document = drawn % 4 === 3 ? `shut-${drawn}` : (openDocuments[drawn % openDocuments.length] ?? '')
    drawn += 1
    const startedMs = performance.now()
    const { statusCode: status, body } = await pool.request({
      method: 'GET',
      path: `/${way}/${document}?n=${number}`,
      headers: { ...headers },
    })
    await body.dump()
    const endedMs = performance.now()
    sent.push({ document, startedMs, endedMs, status, arrivedMs: backend.arrivals.get(number) })
  }
  const caller = async (): Promise<void> => {
    while (!isOver) {
      await ask()
      await sleep(restMs)
    }
  }
  const ended = Promise.all(Array.from({ length: callers }, caller))
  ended.catch(() => undefined)
  const end = async (): Promise<void> => {
    isOver = true
    await ended
    await pool.destroy()
  }
  owner.teardown(() => {
    isOver = true
    return pool.destroy()
  })
  return { sent, end }
}

const isPermit = ({ arrivedMs, status }: Sent): boolean => arrivedMs !== undefined || status === 200

type Injection = Readonly<{ begin: () => Promise<void>; end: () => Promise<void> }>

function injectionOf(fault: FaultName, { real, link }: FaultFixture): Injection {
  const mend = async (): Promise<void> => link.spoil(undefined)
  switch (fault) {
    case 'killed':
      return { begin: real.kill, end: real.start }
    case 'frozen':
      return { begin: real.freeze, end: async () => real.thaw() }
    default:
      return { begin: async () => link.spoil(fault), end: mend }
  }
}

/** Sends requests without a pause; at least `count` of them begin and end within the fault. */
export async function measureFault(
  owner: Owner,
  fixture: FaultFixture,
  fault: FaultName,
  count: number,
): Promise<FaultFigures> {
  const { link } = fixture
  const way = fault === 'killed' || fault === 'frozen' ? 'direct' : 'linked'
  const { begin, end } = injectionOf(fault, fixture)
  const { sent, end: endLoad } = startLoad(owner, fixture, way)
  const waitFor = async (wanted: number, isMeant: (one: Sent) => boolean, what: string): Promise<void> => {
    const from = sent.length
    await until(() => sent.slice(from).filter(isMeant).length >= wanted, `${wanted} ${what}`, 60_000)
  }
  await waitFor(fewPermits, isPermit, 'permits before')
  const beginsMs = performance.now()
  await begin()
  const begunMs = performance.now()
  await waitFor(count, ({ startedMs }) => startedMs >= begunMs, 'answers during the fault')
  const endsMs = performance.now()
  await end()
  const endedMs = performance.now()
  await waitFor(fewPermits, (one) => isPermit(one) && one.startedMs >= endedMs, 'permits after')
  await endLoad()
  const within = sent.filter((one) => one.startedMs >= begunMs && one.endedMs <= endsMs)
  const after = sent.filter(({ startedMs }) => startedMs >= endedMs)
  const hasYes = ({ document, startedMs, arrivedMs = 0 }: Sent): boolean =>
    way === 'direct'
      ? openDocuments.includes(document)
      : link.passed.some((yes) => yes.document === document && yes.atMs >= startedMs && yes.atMs <= arrivedMs)
  const unproven = sent.filter((one) => isPermit(one) && (within.includes(one) || !hasYes(one)))
  return {
    fault,
    permittedBefore: sent.filter((one) => isPermit(one) && one.endedMs < beginsMs).length,
    during: within.length,
    after: after.length,
    permittedAfter: after.filter(isPermit).length,
    unproven: unproven.length,
    millis: sent
      .filter((one) => one.endedMs >= beginsMs && one.startedMs <= endedMs)
      .map(({ startedMs, endedMs }) => endedMs - startedMs),
    recoveryMs: Math.min(...after.filter(isPermit).map((one) => one.endedMs)) - endedMs,
  }
}
