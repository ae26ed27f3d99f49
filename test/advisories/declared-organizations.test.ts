import t from 'tap'
import type { ClaimsPolicy } from '../../gateway/directory/claims/directory.ts'
import { createJoin } from '../../gateway/directory/claims/joined-directory.ts'
import type { Assertions, OrganizationSummary, UserRecord } from '../../gateway/directory/directory.ts'
import type { DeclaredOrganization } from '../../gateway/policy/organizations.ts'

// With "directory.kind: both" an organization has its members from the database or from claims. A user who may name
// organizations in the backend must not get one that a backend takes for a declared one.

const declared: DeclaredOrganization = { id: 7, slug: 'partner', accountType: 'team', source: 'claims' }

const policy = {
  roles: { organization: new Map([['org-member', { rank: 1 }]]), platform: new Map() },
  organizations: { byId: new Map([[7, declared]]), bySlug: new Map([['partner', declared]]), byClaim: new Map() },
} as unknown as ClaimsPolicy // the join reads no more of it

const assertions = { memberships: [{ role: 'org-member', slug: 'partner' }] } as unknown as Assertions

function rolesOf(organization: Partial<OrganizationSummary>, asserted?: Assertions) {
  const summary: OrganizationSummary = { id: 2, slug: 'acme', accountType: 'team', ...organization }
  const user = {
    ...{ id: 1, currentOrganizationId: null },
    roles: [{ id: 1, role: 'org-owner', organization: summary }],
  } as unknown as UserRecord // the join reads no more of it
  return createJoin(() => policy)
    .join(user, asserted)
    .roles.map((assignment) => `${assignment.role} of ${assignment.organization?.id}`)
}

t.test('an organization of the database that may be taken for a declared one gives no right', async (t) => {
  for (const [name, organization] of [
    ['its id', { id: 7 }],
    ['its slug', { slug: 'partner' }],
    ['its slug in capitals', { slug: 'PARTNER' }],
    ['its slug in other letters', { slug: 'Partner' }],
    ['its slug with accents', { slug: 'p\u00e1rtne\u0301r' }],
    ['its slug in wide letters', { slug: '\uff30artner' }],
    ['its slug with spaces around', { slug: ' partner\u00a0' }],
    ['its slug with letters that do not show', { slug: 'part\u200bne\u3164r\0' }],
    ['its slug with a stroke', { slug: 'par\u0167ner' }],
    ['a slug too long to be read', { slug: 'x'.repeat(1_001) }],
    ['its id as the key of the backend', { externalId: '7' }],
    ['its id as such a key, with a zero', { externalId: '07' }],
    ['its id as such a key, in wide digits', { externalId: '\uff17' }],
    ['its id as such a key, with an underscore', { externalId: '0_7' }],
    ['a key too long to be read', { externalId: 'x'.repeat(1_001) }],
  ] as const) {
    t.same(rolesOf(organization), [], name)
    t.same(rolesOf(organization, assertions), ['org-member of 7'], `${name}, beside the claim`)
  }
  for (const organization of [
    { id: 8 },
    { slug: 'partners' },
    { slug: 'p-artner' },
    { slug: 'part ner' },
    { slug: 'pa\u0433tner' },
    { slug: 'x'.repeat(1_000) },
    { externalId: '70' },
    { externalId: null },
    { externalId: '' },
    { externalId: '0198f3a2-5c1e-7d44-b8a0-3f2b6c9d1e07' },
  ])
    t.same(rolesOf(organization), [`org-owner of ${organization.id ?? 2}`], JSON.stringify(organization))
})
