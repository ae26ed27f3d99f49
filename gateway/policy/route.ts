import type { StreamRules, Surface } from '../base/errors/surface.ts'
import type { RateLimit } from './rate-limit.ts'
import type { ResourceKind } from './resource-kind.ts'
import type { OrganizationRole } from './role.ts'

/** Other known methods are 405, and unknown ones are 501 (SPEC section 11). */
export const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const

export type Method = (typeof methods)[number]

export const answerNames = [
  'users.me',
  'users.abilities',
  'organizations.switch',
  'tokens.mint',
  'tokens.list',
  'tokens.revoke',
] as const

export type AnswerName = (typeof answerNames)[number]

export type Destination =
  | Readonly<{ kind: 'upstream'; name: string; place?: string }>
  | Readonly<{ kind: 'cluster'; param: string }>
  | Readonly<{ kind: 'answer'; name: AnswerName }>

export type GuardedResource = Readonly<
  { place: IdPlace } & (
    | { kind: 'agent' }
    | {
        kind: 'object'
        object: ResourceKind
        parents: readonly string[]
        isPublic: boolean
      }
  )
>

export type IdPlace = Readonly<{ in: 'path' | 'header' | 'query'; name: string }>

export type PdpQuestion = Readonly<{ pdp: string; action: string; about: QuestionedResource }>

export type QuestionedResource = Readonly<
  { type: string } & ({ from: 'guarded'; level: number } | { from: 'path'; param: string } | { from: 'route' })
>

export const listPathNames = (resource: GuardedResource): readonly string[] => [
  ...(resource.place.in === 'path' ? [resource.place.name] : []),
  ...(resource.kind === 'object' ? resource.parents : []),
]

export const listAskedNames = (questions: readonly PdpQuestion[]): readonly string[] =>
  questions.flatMap(({ about }) => (about.from === 'path' ? about.param : []))

/** The change from a client's path to the upstream's, by whole segments as they were received. */
export type PathRewrite = Readonly<{
  path: string
  parts: readonly Readonly<
    { kind: 'text'; text: string } | { kind: 'segment'; index: number } | { kind: 'rest'; from: number }
  >[]
  strippedPrefix: string | undefined
}>

export type Route = Readonly<{
  id: string
  source: string
  /** A host name, or a domain under a wildcard label. */
  host: string | undefined
  path: string
  methods: ReadonlySet<Method>
  surface: Surface
  stream: StreamRules | undefined
  isPublic: boolean
  destination: Destination
  rewrite: PathRewrite | undefined
  role: OrganizationRole | undefined
  ability: string | undefined
  organizationParam: string | undefined
  /** The name of an organization that the label of a wildcard host is. */
  hostLabel: 'slug' | undefined
  resource: GuardedResource | undefined
  unguarded: ReadonlyMap<string, string>
  questions: readonly PdpQuestion[]
  isWebSocket: boolean
  isKeptAlive: boolean
  takesEncodedSlashes: boolean
  rateLimit: RateLimit | undefined
  bodyLimitBytes: number | undefined
  headLimits: Readonly<{ headerBytes?: number; targetBytes?: number }>
  timeouts: RouteTimeouts
}>

export const opensPublicAgents = ({ resource, ability }: Pick<Route, 'resource' | 'ability'>): boolean =>
  resource?.kind === 'agent' && ability === 'agents:execute'

export const timeoutNames = ['bodyIdleMs', 'connectMs', 'firstByteMs', 'idleMs', 'streamIdleMs'] as const

export type RouteTimeouts = Readonly<Partial<Record<(typeof timeoutNames)[number], number>>>

export type PatternSegment =
  | Readonly<{ kind: 'literal'; text: string }>
  | Readonly<{ kind: 'param'; name: string }>
  | Readonly<{ kind: 'rest' }>

export function parsePattern(path: string): readonly PatternSegment[] {
  if (!path.startsWith('/')) throw new Error('a path starts with /')
  const parts = path.slice(1).split('/')
  const names = new Set<string>()
  return parts.map((part, index) => {
    const isLast = index === parts.length - 1
    if (part === '' && !isLast) throw new Error('a path has no empty segment')
    if (part === '*') {
      if (!isLast) throw new Error('* is only allowed as the last segment; for one segment write :name')
      return { kind: 'rest' }
    }
    if (part.startsWith(':')) {
      const name = part.slice(1)
      if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) throw new Error(`":${name}" is not a parameter name`)
      if (names.has(name)) throw new Error(`":${name}" appears twice, so rename one`)
      names.add(name)
      return { kind: 'param', name }
    }
    // OpenAPI's spelling of a parameter would be a literal that no client sends.
    if (/^\{.*\}$/.test(part)) throw new Error('a parameter is written :name; for literal braces write %7B and %7D')
    if (/[?#\\]/.test(part)) throw new Error('a path holds no ?, # or backslash')
    if (part.startsWith('*')) throw new Error('write a literal leading * as %2A')
    return { kind: 'literal', text: readLiteral(part) }
  })
}

/** Refuses literals that no request can hold past `stages/receive/` (SPEC section 11), because the route would never match. */
function readLiteral(part: string): string {
  if (/%(?![0-9a-f]{2})/i.test(part))
    throw new Error('a path has % only before two hexadecimal digits; write it as %25')
  let text: string
  try {
    text = decodeURIComponent(part)
  } catch (cause) {
    throw new Error('a path holds escapes of valid UTF-8 only', { cause })
  }
  if (text === '.' || text === '..') throw new Error('a path has no dot segment; write it without')
  if (/[/\\\p{Cc}]/u.test(text)) throw new Error('a path holds no encoded slash, backslash or control character')
  return text
}
