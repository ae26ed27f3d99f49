import t from 'tap'
import { GatewayError } from '../../../gateway/base/errors/gateway-error.ts'
import type { AssertedMembership } from '../../../gateway/directory/directory.ts'
import {
  compileDirectoryRules,
  compileMatch,
  findRuleFaults,
  indexRules,
  mostTestedPairs,
} from '../../../gateway/stages/authenticate/directory-rules.ts'

const issuer = 'https://id.example'
type Rules = Parameters<typeof compileDirectoryRules>[1]

const read = (rules: Rules, raw: Readonly<Record<string, unknown>>) => compileDirectoryRules(issuer, rules)(raw)
const memberships = (rules: Rules, raw: Readonly<Record<string, unknown>>): readonly AssertedMembership[] =>
  read(rules, raw).memberships
const held = (value: string, role: string): AssertedMembership => ({ issuer, value, role })

t.test('a value matches as a whole, letter by letter', async (t) => {
  const match = compileMatch('/{organization}/{role}')
  t.strictSame(match('/acme/org-admin'), { organization: 'acme', role: 'org-admin' })
  for (const value of [
    'x/acme/org-admin',
    '/acme',
    '/acme/',
    '//org-admin',
    '/',
    '/acme/team/org-admin',
    'acme/org-admin',
  ])
    t.equal(match(value), undefined, value)
  const literal = compileMatch('admins')
  t.strictSame(literal('admins'), {})
  for (const value of ['admins ', 'Admins', 'xadmins', 'adminsx', '']) t.equal(literal(value), undefined, value)
  t.strictSame(compileMatch('org:{organization}')('org:acme'), { organization: 'acme' })
  t.equal(compileMatch('org:{organization}')('org:'), undefined)
  t.equal(compileMatch('a{role}a')('a'), undefined, 'prefix and suffix do not share a letter')
})

t.test('a text between two captures that a name contains makes no match', async (t) => {
  const match = compileMatch('{organization}--{role}')
  t.strictSame(match('acme--org-admin'), { organization: 'acme', role: 'org-admin' })
  for (const value of ['acme--eu--org-admin', 'acme---org-admin', '--org-admin', 'acme--'])
    t.equal(match(value), undefined, value)
})

t.test('characters of patterns are literal', async (t) => {
  t.equal(compileMatch('/.*/{role}')('/acme/org-admin'), undefined)
  t.strictSame(compileMatch('/.*/{role}')('/.*/org-admin'), { role: 'org-admin' })
  t.equal(compileMatch('$&{role}')('{role}org-admin'), undefined)
})

t.test('Keycloak: groups, and organizations as list or object', async (t) => {
  const groups = [{ claim: '/groups', matches: '/{organization}/{role}' }]
  t.strictSame(memberships(groups, { groups: ['/acme/org-admin', '/other', 7, null] }), [held('acme', 'org-admin')])
  const organizations = [{ claim: '/organization', matches: '{organization}', role: 'org-member' }]
  t.strictSame(memberships(organizations, { organization: ['acme'] }), [held('acme', 'org-member')])
  t.strictSame(memberships(organizations, { organization: { acme: { id: '1' } } }), [held('acme', 'org-member')])
  t.strictSame(memberships(organizations, {}), [])
})

t.test('Auth0: the organization is in another claim, as one text', async (t) => {
  const rules = [{ claim: '/https:~1~1a.example~1roles', matches: '{role}', organizationClaim: '/org_id' }]
  const roles = { 'https://a.example/roles': ['org-admin'] }
  t.strictSame(memberships(rules, { ...roles, org_id: 'org_1' }), [held('org_1', 'org-admin')])
  for (const org_id of [undefined, '', ['org_1'], { org_1: 1 }, 1])
    t.strictSame(memberships(rules, { ...roles, org_id }), [])
})

t.test('Entra ID: app roles of one tenant', async (t) => {
  const rules = [{ claim: '/roles', matches: '{role}', organization: 'acme' }]
  t.strictSame(memberships(rules, { roles: ['org-owner'] }), [{ role: 'org-owner', slug: 'acme' }])
})

t.test('platform roles and the kind of account come from literal rules', async (t) => {
  const rules = [
    { claim: '/roles', matches: 'Platform.Admin', platformRole: 'admin' },
    { claim: '/azp', matches: 'importer', userType: 'client-managed' },
  ] as const
  t.match(read(rules, { roles: ['admin', 'client-managed'], azp: 'web' }), { platformRoles: [], userType: 'human' })
  const all = read(rules, { roles: ['Platform.Admin'], azp: 'importer' })
  t.strictSame(all, { platformRoles: ['admin'], userType: 'client-managed', memberships: [] })
})

t.test('a claim that the token leaves out and names elsewhere is a refusal', async (t) => {
  const rules = [{ claim: '/groups', matches: '/{organization}/{role}' }]
  const cut = (raw: Readonly<Record<string, unknown>>): string | undefined => {
    try {
      read(rules, raw)
      return undefined
    } catch (error) {
      return (error as GatewayError).exactCause
    }
  }
  const sources = { _claim_sources: { src1: { endpoint: 'https://graph.example' } } }
  for (const raw of [
    { _claim_names: { groups: 'src1' }, ...sources },
    { _claim_names: { groups: 'src1' }, groups: ['/acme/org-member'] },
    { hasgroups: true },
    { hasgroups: 'true' },
    { _claim_names: ['groups'] },
    { _claim_names: 'groups' },
  ])
    t.equal(cut(raw), 'claims_incomplete', JSON.stringify(raw))
  t.equal(cut({ _claim_names: { photos: 'src1' }, ...sources, hasgroups: false }), undefined)
})

const range = (length: number): readonly number[] => Array.from({ length }, (_, index) => index)

t.test('the rules of a value are found by lookups, not tested one by one', async (t) => {
  const claim = '/groups'
  const rules = range(200).map((index): Rules[number] => {
    if (index % 4 === 0) return { claim, matches: `literal-${index}`, platformRole: 'admin' }
    if (index % 4 === 1) return { claim, matches: `/org-${index}/{role}`, organization: `org-${index}` }
    if (index % 4 === 2) return { claim, matches: `{organization}-as-${index}`, role: `role-${index}` }
    return { claim, matches: `app${index}:{organization}/{role}` }
  })
  const find = indexRules(rules)
  // As many values as a token of 24 KiB may hold, of one to four letters, and one of each rule.
  const fitting = rules.map(({ matches }) => matches.replace(/[{}]/g, ''))
  const values = [...range(4_600).map((index) => index.toString(36)), ...fitting]
  const tested = values.reduce((sum, value) => sum + find(value).length, 0)
  t.equal(tested, rules.length, 'of 960,000 pairs')
  for (const [index, value] of fitting.entries())
    t.strictSame(
      find(value).map(({ rule }) => rule),
      [rules[index]],
    )
})

t.test('an index finds each rule that matches, and a found rule is still compared', async (t) => {
  const claim = '/groups'
  const patterns = [
    '{role}',
    'a',
    'aa',
    'a{role}',
    '{role}a',
    'a{role}a',
    'aa{role}',
    '{organization}-{role}',
    'a{role}-a',
  ]
  const find = indexRules(patterns.map((matches) => ({ claim, matches })))
  for (const value of ['', 'a', 'aa', 'aaa', 'aaaa', 'ab', 'ba', 'aba', 'b-a', 'ab-a', '-', 'a-a', 'a-b-a'])
    t.strictSame(
      find(value)
        .filter(({ match }) => match(value))
        .map(({ rule }) => rule.matches)
        .sort(),
      patterns.filter((matches) => compileMatch(matches)(value)).sort(),
      value,
    )
})

t.test('a token that fits too many rules is refused as a whole, whatever its groups repeat', async (t) => {
  const claim = '/groups'
  const rules = range(200).map((index) => ({ claim, matches: '{organization}', role: `role-${index}` }))
  const most = Math.floor(mostTestedPairs / rules.length)
  const groups = range(most).map((index) => `g${index}`)
  t.equal(memberships(rules, { groups }).length, most * rules.length)
  t.equal(memberships(rules, { groups: [...groups, ...groups, ...groups] }).length, most * rules.length, 'repeated')
  t.throws(() => read(rules, { groups: [...groups, 'one-more'] }), new GatewayError('claims_too_many'))
  const others = [...rules, { claim: '/roles', matches: 'admins', platformRole: 'admin' }]
  const read200 = read(others, { groups, roles: [...range(200).map(String), 'admins'] })
  t.strictSame(read200.platformRoles, ['admin'], 'values that no rule may match count for nothing')
})

t.test('rules that leave open what they give are mistakes', async (t) => {
  const claim = '/groups'
  const keysOf = (rule: Rules[number]): readonly string[] => findRuleFaults(rule).map(([key]) => key)
  t.strictSame(keysOf({ claim, matches: '/{organization}/{role}' }), [])
  t.strictSame(keysOf({ claim, matches: 'admins', platformRole: 'admin' }), [])
  t.strictSame(keysOf({ claim, matches: '{role}', platformRole: 'admin' }), ['platformRole'], 'captured')
  t.strictSame(keysOf({ claim, matches: '{organization}', userType: 'client-managed' }), ['userType'], 'captured')
  t.strictSame(keysOf({ claim, matches: 'x', platformRole: 'admin', role: 'org-admin' }), ['platformRole'])
  t.strictSame(keysOf({ claim, matches: 'x', role: 'org-admin' }), ['matches'], 'no organization')
  t.strictSame(keysOf({ claim, matches: 'x', organization: 'acme' }), ['matches'], 'no role')
  t.strictSame(keysOf({ claim, matches: '{organization}', organization: 'acme', role: 'r' }), ['matches'], 'two')
  t.strictSame(keysOf({ claim, matches: '{role}{organization}' }), ['matches'], 'no text between')
  t.strictSame(keysOf({ claim, matches: '{role}-{role}', organization: 'acme' }), ['matches'], 'twice')
})
