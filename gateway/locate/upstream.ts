import type { Networks, UpstreamTimeouts, UpstreamTls } from '../http/engine.ts'
import type { CookieRules } from './cookies.ts'

/** `streamIdleMs` is the silence allowed in an event stream, which waits for a model to think. */
export type Timeouts = UpstreamTimeouts & Readonly<{ streamIdleMs: number }>

/** Where a permitted request goes, and how that backend wants it. */
export type Upstream = Readonly<{
  /** The audience of the identity header. */
  name: string
  /** Where it is, unless `balancer` says so. */
  origin: string
  /** Where an upstream of the configuration is. */
  balancer?: LoadBalancer | undefined
  tls?: UpstreamTls | undefined
  /** Where it may be; absent: anywhere. */
  networks?: Networks
  /** Path and query as they go out. */
  path: string
  /** The Host header: the upstream's own, or the client's. */
  host: string | undefined
  forwardsCredentials: boolean
  /** Headers, by their names in lower case, that it wants though they could make it see another request. */
  passedOverrides: ReadonlySet<string>
  cookies: CookieRules
  answers: AnswerRules
  /** Binds the identity header to method and path. */
  isBound: boolean
  timeouts: Timeouts
  bodyLimitBytes: number
}>

/** An upstream of the configuration. */
export type UpstreamSettings = Readonly<{
  name: string
  origin: string
  balancer?: LoadBalancer
  /** What is in force at this moment. */
  tls?: () => UpstreamTls | undefined
  preservesHost: boolean
  forwardsCredentials: boolean
  passedOverrides: ReadonlySet<string>
  cookies: CookieRules
  answers: AnswerRules
  isBound: boolean
}>

/** What becomes of its answers. */
export type AnswerRules = Readonly<{
  /** Headers, by their names in lower case, that pass though they could command a proxy in front. */
  passedCommands: ReadonlySet<string>
  /** Whether shared caches are told that answers of routes that are not public are their callers' alone. */
  cache: 'private' | 'pass'
}>

/** The addresses where one upstream listens. */
export type LoadBalancer = Readonly<{
  /** A request that could go to another one as well may find out whether a failing one is good again. */
  pick: (isRepeatable: boolean) => Attempt
  /** One that is good and was not tried, if there is any. */
  pickOther: (tried: readonly Attempt[]) => Attempt | undefined
}>

/** One request's try of an address, and what is to be told of it. */
export type Attempt = Readonly<{
  origin: string
  /** With whatever status. */
  answered: () => void
  /** It could not be reached, or broke before an answer. */
  failed: () => void
  /** The exchange is over, or nothing came of it. Undefined where nobody counts what is under way. */
  end: (() => void) | undefined
}>
