import t from 'tap'
import { createClaimsDirectory } from '../../../gateway/directory/claims/directory.ts'
import type { Assertions } from '../../../gateway/directory/directory.ts'
import { parsePolicy } from '../../../gateway/policy/load.ts'

const ladder = ['client', 'member', 'admin', 'owner']
  .map((name) => `{ slug: org-${name}, name: ${name}, abilities: [] }`)
  .join(', ')

const policyOf = (platformRoles: string) =>
  parsePolicy(
    'policies',
    new Map([
      [
        'all.yaml',
        `organizationRoles: [${ladder}]
platformRoles: [${platformRoles}]
organizations: [{ id: 1, slug: acme, claims: [{ issuer: 'https://i.example', value: a }] }]`,
      ],
    ]),
    new Set(),
  )

const assertions: Assertions = {
  key: 'k',
  profile: { email: 'a@b.example', isEmailVerified: false, username: null, firstName: null, lastName: null },
  userType: 'human',
  platformRoles: ['admin', 'auditor'],
  memberships: [
    { role: 'org-member', issuer: 'https://i.example', value: 'a' },
    { role: 'org-emperor', issuer: 'https://i.example', value: 'a' },
  ],
}

t.test('a role that a reloaded policy no longer declares counts no more', async (t) => {
  let policy = policyOf('{ slug: admin, name: Admin }, { slug: auditor, name: Auditor }')
  const { directory } = createClaimsDirectory(() => policy)
  const rolesOf = async (): Promise<readonly string[] | undefined> =>
    (await directory.findByIdentity({ issuer: 'https://i.example', subject: 's', assertions }))?.roles.map(
      ({ role }) => role,
    )
  t.same(await rolesOf(), ['org-member', 'admin', 'auditor'])
  policy = policyOf('{ slug: admin, name: Admin }')
  t.same(await rolesOf(), ['org-member', 'admin'])
})
