import type { Networks, UpstreamTimeouts, UpstreamTls } from '../../http/engine.ts'
import type { CookieRules } from './cookies.ts'

/** `streamIdleMs` is the allowed silence of an event stream, which waits for a model to think. */
export type Timeouts = UpstreamTimeouts & Readonly<{ streamIdleMs: number }>

export type Upstream = Readonly<{
  name: string
  origin: string
  balancer?: LoadBalancer | undefined
  tls?: UpstreamTls | undefined
  networks?: Networks
  path: string
  rewrittenPath?: string | undefined
  strippedPrefix?: string | undefined
  host: string | undefined
  forwardsCredentials: boolean
  /** Header names in lower case that pass although they could make the upstream see another request. */
  passedOverrides: ReadonlySet<string>
  cookies: CookieRules
  answers: AnswerRules
  isBound: boolean
  isIsolated: boolean
  timeouts: Timeouts
  /** The most that a head may have as it is forwarded; absent, as much as it has. */
  headLimitBytes?: number | undefined
  bodyLimitBytes: number
}>

/** Whether both describe one request. The rest is configured for the upstream of that name. */
export const isSameRequest = (left: Upstream, right: Upstream): boolean =>
  left.name === right.name &&
  left.origin === right.origin &&
  left.path === right.path &&
  left.strippedPrefix === right.strippedPrefix &&
  left.host === right.host &&
  left.forwardsCredentials === right.forwardsCredentials

export type UpstreamSettings = Readonly<{
  name: string
  origin: string
  balancer?: LoadBalancer
  tls?: () => UpstreamTls | undefined
  preservesHost: boolean
  forwardsCredentials: boolean
  passedOverrides: ReadonlySet<string>
  cookies: CookieRules
  answers: AnswerRules
  isBound: boolean
  /** Whether organizations share none of its connections. */
  isIsolated: boolean
  headLimitBytes?: number | undefined
}>

export type AnswerRules = Readonly<{
  /** Header names in lower case that pass although they could command a proxy in front. */
  passedCommands: ReadonlySet<string>
  /** Whether responses of non-public routes tell shared caches that they are private. */
  cache: 'private' | 'pass'
}>

export type LoadBalancer = Readonly<{
  /** A repeatable request may test an ejected address again. */
  pick: (isRepeatable: boolean) => Attempt
  pickOther: (tried: readonly Attempt[]) => Attempt | undefined
}>

export type Attempt = Readonly<{
  origin: string
  answered: () => void
  /** Called if the address was unreachable, or the connection broke before a response. */
  failed: () => void
  /** Called once the exchange is over. Undefined if active requests are not counted. */
  end: (() => void) | undefined
}>
