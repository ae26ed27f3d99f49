import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { AssertedMembership, Assertions } from '../../directory/directory.ts'
import { type Pointer, parsePointer, readPointer } from './pointer.ts'

export type DirectoryRule = Readonly<{
  claim: string
  matches: string
  organization?: string
  organizationClaim?: string
  role?: string
  platformRole?: string
  userType?: 'client-managed'
}>

export type Granted = Pick<Assertions, 'userType' | 'platformRoles' | 'memberships'>

export type ReadGranted = (raw: Readonly<Record<string, unknown>>) => Granted

type Captures = Readonly<Partial<Record<'organization' | 'role', string>>>

/**
 * The rules that may match one value, found by lookups, so that the work follows the groups and not groups times rules.
 * Only rules that fit the same values are tested together.
 */
type FindRules = (value: string) => readonly CompiledRule[]

type CompiledRule = Readonly<{
  rule: DirectoryRule
  organizationClaim: Pointer | undefined
  match: (value: string) => Captures | undefined
}>

/**
 * The most pairs of a value and a rule that are tested for one token. A token of 24 KiB has room for some 2,000 groups
 * with names of six letters, which leaves two rules for each.
 */
export const mostTestedPairs = 4096

export function compileDirectoryRules(issuer: string, rules: readonly DirectoryRule[]): ReadGranted {
  const claims = [...new Set(rules.map(({ claim }) => claim))].map((claim) => ({
    claim: parsePointer(claim),
    find: indexRules(rules.filter((rule) => rule.claim === claim)),
  }))
  const pointers = rules.flatMap(({ claim, organizationClaim }) => [claim, organizationClaim ?? claim])
  const names = new Set(pointers.map((pointer) => parsePointer(pointer)[0]))
  return (raw) => {
    requireWhole(raw, names)
    const platformRoles = new Set<string>()
    const memberships = new Map<string, AssertedMembership>()
    let userType: Granted['userType'] = 'human'
    let tested = 0
    for (const { claim, find } of claims)
      for (const value of new Set(listValues(readPointer(raw, claim))))
        for (const { rule, organizationClaim, match } of find(value)) {
          tested += 1
          // Never only a part of the rights: which part would depend on the order of the groups.
          if (tested > mostTestedPairs) throw new GatewayError('claims_too_many')
          const captures = match(value)
          if (!captures) continue
          if (rule.platformRole !== undefined) platformRoles.add(rule.platformRole)
          if (rule.userType !== undefined) userType = rule.userType
          const referenced = organizationClaim && readPointer(raw, organizationClaim)
          const membership = assertMembership(issuer, rule, captures, referenced)
          if (membership) memberships.set(JSON.stringify(membership), membership)
        }
    return { userType, platformRoles: [...platformRoles], memberships: [...memberships.values()] }
  }
}

/** Rules of one claim by the text around their captures: one lookup for each pair of lengths that the rules have. */
export function indexRules(rules: readonly DirectoryRule[]): FindRules {
  const shapes = new Map<string, Shape>()
  const literals = new Map<string, CompiledRule[]>()
  for (const rule of rules) {
    const { matches, organizationClaim } = rule
    const pointer = organizationClaim === undefined ? undefined : parsePointer(organizationClaim)
    const compiled = { rule, organizationClaim: pointer, match: compileMatch(matches) }
    const ends = endsOf(matches)
    if (ends) {
      const name = `${ends.prefix.length} ${ends.suffix.length}`
      const shape = shapes.get(name) ?? { before: ends.prefix.length, after: ends.suffix.length, byEnds: new Map() }
      addTo(shape.byEnds, ends.prefix + ends.suffix, compiled)
      shapes.set(name, shape)
    } else addTo(literals, matches, compiled)
  }
  const patterns = [...shapes.values()]
  return (value) => {
    const found = [...(literals.get(value) ?? [])]
    for (const { before, after, byEnds } of patterns)
      if (value.length > before + after)
        found.push(...(byEnds.get(value.slice(0, before) + value.slice(value.length - after)) ?? []))
    return found
  }
}

/** Both lengths are fixed, so the joined ends are unambiguous. */
type Shape = Readonly<{ before: number; after: number; byEnds: Map<string, CompiledRule[]> }>

function addTo(rules: Map<string, CompiledRule[]>, name: string, rule: CompiledRule): void {
  const known = rules.get(name)
  if (known) known.push(rule)
  else rules.set(name, [rule])
}

function assertMembership(
  issuer: string,
  rule: DirectoryRule,
  captures: Captures,
  referenced: unknown,
): AssertedMembership | undefined {
  const role = rule.role ?? captures.role
  if (role === undefined) return undefined
  if (rule.organization !== undefined) return { role, slug: rule.organization }
  const value = captures.organization ?? referenced
  return typeof value === 'string' && value !== '' ? { role, issuer, value } : undefined
}

function listValues(claim: unknown): readonly string[] {
  if (typeof claim === 'string') return [claim]
  if (Array.isArray(claim)) return claim.filter((value): value is string => typeof value === 'string')
  if (typeof claim !== 'object' || claim === null) return []
  return Object.entries(claim).flatMap(([key, value]) => (isGranting(value) ? [key] : []))
}

const isGranting = (value: unknown): boolean => value === true || (typeof value === 'object' && value !== null)

/** Entra ID leaves many groups out of a token, and names their source instead (OpenID Connect Core 5.6.2). */
function requireWhole(raw: Readonly<Record<string, unknown>>, names: ReadonlySet<string | undefined>): void {
  const { _claim_names: elsewhere, hasgroups } = raw
  const isAbsent = elsewhere === undefined || elsewhere === null
  const isListed = typeof elsewhere === 'object' && !Array.isArray(elsewhere)
  const isCut = !isAbsent && (!isListed || Object.keys(Object(elsewhere)).some((name) => names.has(name)))
  if (isCut || (names.has('groups') && hasgroups !== undefined && hasgroups !== false))
    throw new GatewayError('claims_incomplete')
}

export const capturesOf = (matches: string): readonly (keyof Captures)[] =>
  [...matches.matchAll(placeholder)].map(([, name]) => name as keyof Captures) // the pattern knows two names

const placeholder = /\{(organization|role)\}/g

/**
 * A value fits as a whole, letter by letter. The text between two captures may stand in the value once alone, because
 * otherwise a name that contains it could be read in two ways.
 */
export function compileMatch(matches: string): (value: string) => Captures | undefined {
  const [first, second] = capturesOf(matches)
  const ends = endsOf(matches)
  if (first === undefined || ends === undefined) return (value) => (value === matches ? {} : undefined)
  const { prefix, middle, suffix } = ends
  return (value) => {
    if (!value.startsWith(prefix) || !value.endsWith(suffix) || value.length <= prefix.length + suffix.length)
      return undefined
    const captured = value.slice(prefix.length, value.length - suffix.length)
    if (second === undefined) return { [first]: captured }
    const at = captured.indexOf(middle)
    const isOnce = at > 0 && at === captured.lastIndexOf(middle) && at + middle.length < captured.length
    return isOnce ? { [first]: captured.slice(0, at), [second]: captured.slice(at + middle.length) } : undefined
  }
}

type Ends = Readonly<Record<'prefix' | 'middle' | 'suffix', string>>

/** The texts around the captures; undefined for a literal. */
function endsOf(matches: string): Ends | undefined {
  const [prefix = '', second, third] = matches.split(/\{(?:organization|role)\}/)
  if (second === undefined) return undefined
  return third === undefined ? { prefix, middle: '', suffix: second } : { prefix, middle: second, suffix: third }
}

export function findRuleFaults(rule: DirectoryRule): readonly (readonly [key: keyof DirectoryRule, fault: string])[] {
  const { matches, organization, organizationClaim, role, platformRole, userType } = rule
  const captures = capturesOf(matches)
  const faults: (readonly [keyof DirectoryRule, string])[] = []
  const isMembership = platformRole === undefined && userType === undefined
  if (!isMembership && ((captures.length > 0 || role) ?? organization ?? organizationClaim))
    faults.push([
      platformRole === undefined ? 'userType' : 'platformRole',
      'stands beside a literal matches alone; write the value out, and give memberships a rule of their own',
    ])
  if (new Set(captures).size < captures.length || /\}\{/.test(matches))
    faults.push(['matches', 'names a capture twice, or two without a text between them; keep each once, and apart'])
  if (!isMembership) return faults
  const places = [captures.includes('organization') || undefined, organization, organizationClaim]
  if (places.filter((place) => place !== undefined).length !== 1)
    faults.push(['matches', 'must lead to one organization: by {organization}, organization or organizationClaim'])
  if (captures.includes('role') === (role !== undefined))
    faults.push(['matches', 'must lead to one role: by {role} or role'])
  return faults
}
