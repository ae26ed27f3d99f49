import type { StreamKind, StreamRules, Surface } from '../base/errors/surface.ts'
import type { Problem } from './configuration-error.ts'
import type { Path } from './document.ts'
import type { RateLimitContent } from './rate-limit.ts'
import type { ResourceIdType } from './resource-kind.ts'
import type { AnswerName, Method, RouteTimeouts } from './route.ts'

export type PolicyFileContent = Readonly<{
  organizationRoles?: readonly Readonly<{
    slug: string
    name: string
    description?: string
    abilities: readonly string[]
  }>[]
  platformRoles?: readonly Readonly<{ slug: string; name: string; description?: string; bypass?: boolean }>[]
  tokenScopes?: Readonly<Record<string, readonly string[]>>
  meanings?: Readonly<{ reads?: MeaningContent; writes: MeaningContent; manages: MeaningContent; owns: MeaningContent }>
  organizations?: readonly Readonly<{
    id: number
    slug: string
    accountType?: 'individual' | 'team' | 'enterprise'
    claims?: readonly Readonly<{ issuer: string; value: string }>[]
  }>[]
  rateLimits?: Readonly<Record<string, RateLimitContent>>
  resources?: Readonly<Record<string, ResourceContent>>
  routes?: readonly RouteContent[]
}>

export type MeaningContent = Readonly<{ role: string; abilities?: readonly string[] }>

export type ResourceContent = Readonly<{
  id: ResourceIdType
  owner?: boolean
  visibility?: boolean
  privateRole?: string
  parent?: string
  decision?: Readonly<{ pdp: string; action?: string }>
}>

export type RouteContent = Readonly<{
  id: string
  match: Readonly<{ methods?: readonly Method[]; path: string; host?: string }>
  surface: Surface
  stream?: StreamKind | (Pick<StreamRules, 'kind'> & Partial<StreamRules>)
  access?: 'authenticated' | 'public'
  upstream?: string
  stripPrefix?: string
  rewrite?: string
  cluster?: Readonly<{ param: string }>
  answer?: AnswerName
  require?: Readonly<{ role?: string; ability?: string }>
  organization?: Readonly<{ param?: string; hostLabel?: 'slug' }>
  resource?: Readonly<{
    kind: string
    param?: string
    header?: string
    query?: string
    parents?: readonly string[]
    public?: boolean
  }>
  unguarded?: Readonly<Record<string, string>>
  decision?: Readonly<{ pdp: string; action?: string; resource?: Readonly<{ type?: string; param?: string }> }>
  websocket?: boolean
  keepAlive?: boolean
  encodedSlashes?: 'refuse' | 'allow'
  rateLimit?: string
  limits?: Readonly<{ headerBytes?: number; targetBytes?: number; bodyBytes?: number }>
  timeouts?: RouteTimeouts
}>

export type PolicyTexts = ReadonlyMap<string, string>

/** Content of a policy file, and the lines of its routes, from 1. Plain data, because it may come from a thread. */
export type PolicyReading = Readonly<{ content: PolicyFileContent; routeLines: readonly number[] }>

export type PolicyFile = PolicyReading &
  Readonly<{
    name: string
    problemAt: (path: Path, message: string) => Problem
  }>
