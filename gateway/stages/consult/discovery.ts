import { parseUnambiguous } from '../../base/lib/parse-shallow.ts'
import { metadataMs } from '../../rights/paces.ts'
import { answerLimitBytes, isPlainJson, type PdpAnswer, UnusableDecision } from './answer.ts'
import type { Endpoint } from './decision-point.ts'

export type Endpoints = Readonly<Record<Endpoint, string | undefined>>

export type Discovery = Readonly<{
  refresh: () => void
  find: (endpoint: Endpoint, withinMs: number) => Promise<string>
}>

export type DiscoveryOptions = Readonly<{
  url: string
  ask: (path: string, withinMs: number) => Promise<PdpAnswer>
  monotonicMs: () => number
  after: (ms: number, work: () => void) => () => void
}>

/** Metadata are a flat object; the bound keeps the reader's stack flat. */
const mostDepth = 32

const members = { evaluation: 'access_evaluation_endpoint', evaluations: 'access_evaluations_endpoint' } as const

export function metadataPath(url: string): string {
  const { pathname } = new URL(url)
  return `/.well-known/authzen-configuration${pathname.replace(/\/$/, '')}`
}

export function readMetadata({ status, headers, body }: PdpAnswer, url: string): Endpoints {
  if (body.length > answerLimitBytes) throw new UnusableDecision('the metadata are too large')
  if (status >= 500) throw new Error(`the status of the metadata is ${status}`)
  if (status !== 200) throw new UnusableDecision(`the status of the metadata is ${status}`)
  if (!isPlainJson(headers)) throw new UnusableDecision('the metadata are not JSON')
  const document = parseDocument(body)
  if (document.get('policy_decision_point') !== url)
    throw new UnusableDecision('the metadata name another policy_decision_point than url')
  const evaluation = readEndpoint(document, 'evaluation', url)
  if (evaluation === undefined) throw new UnusableDecision(`the metadata have no ${members.evaluation}`)
  return { evaluation, evaluations: readEndpoint(document, 'evaluations', url) }
}

function parseDocument(body: Buffer): ReadonlyMap<string, unknown> {
  let value: unknown
  try {
    value = parseUnambiguous(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body), mostDepth)
  } catch {
    throw new UnusableDecision('the metadata are not JSON, or name a member twice')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new UnusableDecision('the metadata are not a JSON object')
  return new Map(Object.entries(value))
}

function readEndpoint(document: ReadonlyMap<string, unknown>, endpoint: Endpoint, url: string): string | undefined {
  const member = members[endpoint]
  const address = document.get(member)
  if (address === undefined) return undefined
  const { origin } = new URL(url)
  const path = typeof address === 'string' && address.startsWith(`${origin}/`) ? address.slice(origin.length) : ''
  if (!/^(?:\/[\w~!$&'()*+,;=:@-][\w.~!$&'()*+,;=:@-]*)+$/.test(path))
    throw new UnusableDecision(`the ${member} is not a plain address at ${origin}`)
  return path
}

export function createDiscovery({ url, ask, monotonicMs, after }: DiscoveryOptions): Discovery {
  let known: Endpoints | undefined
  let failure: unknown = new Error('the metadata have not come yet')
  let refreshing: Promise<void> | undefined
  let restsUntilMs = Number.NEGATIVE_INFINITY
  const read = async (): Promise<void> => {
    try {
      known = readMetadata(await ask(metadataPath(url), metadataMs.timeout), url)
      restsUntilMs = monotonicMs() + metadataMs.refresh
    } catch (error) {
      failure = error
      if (error instanceof UnusableDecision) known = undefined
      restsUntilMs = monotonicMs() + metadataMs.retry
    } finally {
      refreshing = undefined
    }
  }
  const refresh = (): void => {
    refreshing ??= read()
  }
  const wait = (ended: Promise<void>, withinMs: number): Promise<void> =>
    new Promise((resolve) => {
      const callOff = after(withinMs, resolve)
      const end = (): void => {
        callOff()
        resolve()
      }
      ended.then(end, end)
    })
  return {
    refresh,
    find: async (endpoint, withinMs) => {
      if (monotonicMs() >= restsUntilMs) refresh()
      if (known === undefined && refreshing !== undefined) await wait(refreshing, withinMs)
      if (known === undefined) throw failure
      const path = known[endpoint]
      if (path === undefined) throw new UnusableDecision(`the metadata have no ${members[endpoint]}`)
      return path
    },
  }
}
