import type { Networks, UpstreamTimeouts, UpstreamTls } from '../http/engine.ts'
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
  timeouts: Timeouts
  bodyLimitBytes: number
}>

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
