import type { AssertedMembership, Assertions } from '../directory/directory.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { parsePointer, readPointer } from './pointer.ts'

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

export function compileDirectoryRules(issuer: string, rules: readonly DirectoryRule[]): ReadGranted {
  const compiled = rules.map((rule) => ({
    rule,
    claim: parsePointer(rule.claim),
    organizationClaim: rule.organizationClaim === undefined ? undefined : parsePointer(rule.organizationClaim),
    match: compileMatch(rule.matches),
  }))
  const names = new Set(compiled.flatMap(({ claim, organizationClaim }) => [claim[0], organizationClaim?.[0]]))
  return (raw) => {
    requireWhole(raw, names)
    const platformRoles = new Set<string>()
    const memberships = new Map<string, AssertedMembership>()
    let userType: Granted['userType'] = 'human'
    for (const { rule, claim, organizationClaim, match } of compiled)
      for (const value of listValues(readPointer(raw, claim))) {
        const captures = match(value)
        if (!captures) continue
        if (rule.platformRole !== undefined) platformRoles.add(rule.platformRole)
        if (rule.userType !== undefined) userType = rule.userType
        const membership = assertMembership(
          issuer,
          rule,
          captures,
          organizationClaim && readPointer(raw, organizationClaim),
        )
        if (membership) memberships.set(JSON.stringify(membership), membership)
      }
    return { userType, platformRoles: [...platformRoles], memberships: [...memberships.values()] }
  }
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
  const [prefix = '', middle = '', suffix = ''] = matches.split(/\{(?:organization|role)\}/)
  if (first === undefined) return (value) => (value === matches ? {} : undefined)
  const end = second === undefined ? middle : suffix
  return (value) => {
    if (!value.startsWith(prefix) || !value.endsWith(end) || value.length <= prefix.length + end.length)
      return undefined
    const captured = value.slice(prefix.length, value.length - end.length)
    if (second === undefined) return { [first]: captured }
    const at = captured.indexOf(middle)
    const isOnce = at > 0 && at === captured.lastIndexOf(middle) && at + middle.length < captured.length
    return isOnce ? { [first]: captured.slice(0, at), [second]: captured.slice(at + middle.length) } : undefined
  }
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
