import type { StreamKind, Surface } from '../errors/surface.ts'
import type { Problem } from './configuration-error.ts'
import type { Path } from './document.ts'
import type { RateLimitContent } from './rate-limit.ts'
import type { AnswerName, Method, RouteTimeouts } from './route.ts'

/** A policy file as written, after its schema held (`policies/policy.schema.json`). */
export type PolicyFileContent = Readonly<{
  organizationRoles?: readonly Readonly<{
    slug: string
    name: string
    description?: string
    abilities: readonly string[]
  }>[]
  platformRoles?: readonly Readonly<{ slug: string; name: string; description?: string; bypass?: boolean }>[]
  tokenScopes?: Readonly<Record<string, readonly string[]>>
  rateLimits?: Readonly<Record<string, RateLimitContent>>
  routes?: readonly RouteContent[]
}>

export type RouteContent = Readonly<{
  id: string
  match: Readonly<{ methods?: readonly Method[]; path: string; host?: string }>
  surface: Surface
  stream?: StreamKind
  access?: 'authenticated' | 'public'
  upstream?: string
  cluster?: Readonly<{ param: string }>
  answer?: AnswerName
  require?: Readonly<{ role?: string; ability?: string }>
  organization?: Readonly<{ param: string }>
  resource?: Readonly<{ kind: 'agent'; param: string }>
  websocket?: boolean
  encodedSlashes?: 'refuse' | 'allow'
  rateLimit?: string
  limits?: Readonly<{ headerBytes?: number; targetBytes?: number; bodyBytes?: number }>
  timeouts?: RouteTimeouts
}>

/** The policy files of a directory by their names, in the order of these. */
export type PolicyTexts = ReadonlyMap<string, string>

/** What a policy file says, and the lines where its routes stand, from 1. Plain data, which may come from another thread. */
export type PolicyReading = Readonly<{ content: PolicyFileContent; routeLines: readonly number[] }>

/** A policy file that was read, and can say where each of its values stands. */
export type PolicyFile = PolicyReading &
  Readonly<{
    name: string
    /** As `YamlFile` has it. */
    problemAt: (path: Path, message: string) => Problem
  }>
