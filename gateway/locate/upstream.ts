import type { UpstreamTimeouts } from '../engine/engine.ts'

/** `streamIdleMs` is the silence allowed in an event stream, which waits for a model to think. */
export type Timeouts = UpstreamTimeouts & Readonly<{ streamIdleMs: number }>

/** Where a permitted request goes, and how that backend wants it. */
export type Upstream = Readonly<{
  /** The audience of the identity header. */
  name: string
  origin: string
  /** Path and query as they go out. */
  path: string
  /** The Host header: the upstream's own, or the client's. */
  host: string | undefined
  forwardsCredentials: boolean
  /** Headers, by their names in lower case, that it wants though they could make it see another request. */
  passedOverrides: ReadonlySet<string>
  /** Binds the identity header to method and path. */
  isBound: boolean
  timeouts: Timeouts
  bodyLimitBytes: number
}>

/** An upstream of the configuration. */
export type UpstreamSettings = Readonly<{
  name: string
  origin: string
  preservesHost: boolean
  forwardsCredentials: boolean
  passedOverrides: ReadonlySet<string>
  isBound: boolean
}>
