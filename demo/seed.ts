import { randomInt } from 'node:crypto'
import type pg from 'pg'
import { formatToken, makeSecret } from '../gateway/stages/endpoints/token-secret.ts'

export type DemoObjects = Readonly<Record<DemoObject, string>>

export type DemoObject = 'acme' | 'acmePrivate' | 'globex' | 'initech' | 'public'

export type Population = Readonly<{
  objects: Readonly<Record<DemoKind, DemoObjects>>
  users: Readonly<Record<DemoUser, number>>
  serviceAccounts: Readonly<Record<DemoServiceAccount, ServiceAccount>>
  organizations: Readonly<Record<DemoOrganization, number>>
}>

export type DemoUser = 'owner' | 'admin' | 'member' | 'client' | 'outsider' | 'platformAdmin' | 'homeless'
export type DemoServiceAccount = 'robot' | 'robotAdmin'
export type DemoOrganization = 'acme' | 'globex' | 'initech'
export type ServiceAccount = Readonly<{ id: number } & Record<'apiKey' | 'apiSecret' | 'expired' | 'revoked', string>>

export type ClusterUrls = Readonly<{ healthy: string; globex: string; unreachable: string }>

export const demoUsers: readonly DemoUser[] = [
  'owner',
  'admin',
  'member',
  'client',
  'outsider',
  'platformAdmin',
  'homeless',
]

export const identityOf = (user: DemoUser) => ({ sub: `demo-${user}`, email: `${user}@demo.example` })

const assignments: readonly (readonly [DemoUser | DemoServiceAccount, DemoOrganization | null, string])[] = [
  ['owner', 'acme', 'org-owner'],
  ['owner', 'globex', 'org-member'],
  ['admin', 'acme', 'org-admin'],
  ['member', 'acme', 'org-member'],
  ['client', 'acme', 'org-client'],
  ['outsider', 'globex', 'org-owner'],
  ['platformAdmin', null, 'admin'],
  ['platformAdmin', 'acme', 'org-client'],
  ['robot', 'acme', 'org-member'],
  ['robotAdmin', 'acme', 'org-admin'],
]

type Scopes = ReadonlyMap<string, ReadonlySet<string>>

/** Ids follow the order of the inserts and are part of SPEC section 9. */
export async function seed(
  client: pg.ClientBase,
  issuer: string,
  clusters: ClusterUrls,
  scopes: Scopes,
): Promise<Population> {
  await client.query('begin')
  const organizations = {
    acme: await addOrganization(client, 'acme', 'Acme', 'enterprise', 3),
    globex: await addOrganization(client, 'globex', 'Globex', 'team', 2),
    initech: await addOrganization(client, 'initech', 'Initech', 'enterprise', 1),
  }
  const users: Record<string, number> = {}
  for (const user of demoUsers) users[user] = await addHuman(client, user, issuer)
  for (const account of ['robot', 'robotAdmin']) users[account] = await addServiceAccount(client, account)
  for (const [user, organization, role] of assignments)
    await client.query('insert into role_assignments (user_id, organization_id, role) values ($1, $2, $3)', [
      users[user],
      organization && organizations[organization],
      role,
    ])
  await addAgents(client, organizations)
  const objects = await addObjects(client, organizations, users.owner ?? 0)
  await addClusters(client, organizations, clusters)
  const serviceAccounts = {
    robot: await addTokens(client, users.robot ?? 0, scopes),
    robotAdmin: await addTokens(client, users.robotAdmin ?? 0, scopes),
  }
  await client.query('commit')
  return { users: users as Population['users'], serviceAccounts, organizations, objects }
}

async function insert(client: pg.ClientBase, text: string, values: readonly unknown[]): Promise<number> {
  const { rows } = await client.query<{ id: number }>(`insert into ${text} returning id`, [...values])
  const [row] = rows
  if (!row) throw new Error('nothing was inserted')
  return row.id
}

const addOrganization = (client: pg.ClientBase, slug: string, name: string, accountType: string, yearsOld: number) =>
  insert(
    client,
    `organizations (slug, name, account_type, is_verified, description, contact_email, created_at)
     values ($1, $2, $3, true, $4, $5, now() - make_interval(years => $6))`,
    [slug, name, accountType, `${name} of the demo world`, `hello@${slug}.example`, yearsOld],
  )

async function addHuman(client: pg.ClientBase, user: DemoUser, issuer: string): Promise<number> {
  const { sub, email } = identityOf(user)
  const id = await insert(
    client,
    `users (email, username, first_name, last_name, full_name, user_type, email_verified)
     values ($1, $2, $3, 'Demo', $3 || ' Demo', 'human', true)`,
    [email, user, user.charAt(0).toUpperCase() + user.slice(1)],
  )
  await client.query('insert into user_identities (user_id, issuer, subject) values ($1, $2, $3)', [id, issuer, sub])
  return id
}

const addServiceAccount = (client: pg.ClientBase, name: string): Promise<number> =>
  insert(client, `users (email, username, user_type, email_verified) values ($1, $2, 'client-managed', true)`, [
    `${name}@demo.example`,
    name,
  ])

async function addAgents(client: pg.ClientBase, { acme, globex, initech }: Population['organizations']): Promise<void> {
  await client.query(
    `insert into agents (organization_id, name, is_public)
     values ($1, 'acme helper', false), ($2, 'globex helper', false), ($3, 'public helper', true)`,
    [acme, globex, initech],
  )
}

const demoObjects: readonly DemoObject[] = ['acme', 'acmePrivate', 'globex', 'initech', 'public']

export type DemoKind = 'datasets' | 'entries' | 'workflows' | 'jobs' | 'files'

/** Each id of a kind comes with the parent's of the same name. The last bigints are unsafe as numbers. */
const demoKinds: readonly (readonly [
  kind: DemoKind,
  table: string,
  parent: DemoKind | undefined,
  ids: readonly string[],
])[] = [
  ['datasets', 'resources_dataset', undefined, ['1', '2', '3', '4', '5']],
  ['entries', 'resources_entry', 'datasets', ['11', '12', '13', '14', '9007199254740993']],
  [
    'workflows',
    'resources_workflow',
    undefined,
    [1, 2, 3, 4, 5].map((number) => `5a11f0e7-0000-4000-8000-00000000000${number}`),
  ],
  ['jobs', 'resources_job', 'workflows', ['21', '22', '23', '24', '9007199254740993']],
  [
    'files',
    'resources_file',
    undefined,
    ['report.csv', 'payroll.csv', 'globex.csv', 'initech.csv', 'Manual_v1~en.txt'],
  ],
]

async function addObjects(
  client: pg.ClientBase,
  { acme, globex, initech }: Population['organizations'],
  ownerId: number,
): Promise<Population['objects']> {
  const organizations = { acme, acmePrivate: acme, globex, initech, public: initech }
  const visibilities: Readonly<Partial<Record<DemoObject, string>>> = { acmePrivate: 'private', public: 'public' }
  const objects = {} as Record<DemoKind, DemoObjects>
  for (const [kind, table, parent, ids] of demoKinds) {
    const named = demoObjects.map((name, index) => [name, ids[index] ?? ''] as const)
    objects[kind] = Object.fromEntries(named) as DemoObjects
    for (const [name, id] of named)
      await client.query(
        `insert into ${table} (id, organization_id, owner_id, visibility${parent ? ', parent' : ''})
         values ($1, $2, $3, $4${parent ? ', $5' : ''})`,
        [
          id,
          organizations[name],
          name === 'acmePrivate' ? ownerId : null,
          visibilities[name] ?? 'organization',
          ...(parent ? [objects[parent][name]] : []),
        ],
      )
  }
  return objects
}

async function addClusters(client: pg.ClientBase, { acme, globex }: Population['organizations'], urls: ClusterUrls) {
  await client.query(
    `insert into clusters (organization_id, name, slug, base_url, status, last_heartbeat_at) values
      ($1, 'Healthy', 'healthy', $3, 'active', now()),
      ($1, 'Suspended', 'suspended', $3, 'suspended', now()),
      ($1, 'Stale', 'stale', $3, 'active', now() - interval '1 day'),
      ($1, 'Deleting', 'deleting', $3, 'deleting', now()),
      ($1, 'Unreachable', 'unreachable', $4, 'active', now()),
      ($2, 'Globex', 'globex', $5, 'active', now())`,
    [acme, globex, urls.healthy, urls.unreachable, urls.globex],
  )
}

export const heartbeat =
  "update clusters set last_heartbeat_at = now() where slug <> 'stale' and last_heartbeat_at is not null"

async function addTokens(client: pg.ClientBase, userId: number, scopes: Scopes): Promise<ServiceAccount> {
  const mint = (scope: string, name: string, expiry: string | null) =>
    addToken(client, userId, name, [...(scopes.get(scope) ?? [])], expiry)
  const revoked = await mint('api-secret', 'revoked', null)
  await client.query('delete from auth_access_tokens where id = $1', [revoked.id])
  return {
    id: userId,
    apiKey: (await mint('api-key', 'demo key', null)).value,
    apiSecret: (await mint('api-secret', 'demo secret', null)).value,
    expired: (await mint('api-secret', 'expired', "now() - interval '1 hour'")).value,
    revoked: revoked.value,
  }
}

async function addToken(
  client: pg.ClientBase,
  userId: number,
  name: string,
  abilities: string[],
  expiry: string | null,
) {
  const { secret, hash } = makeSecret(randomInt)
  const id = await insert(
    client,
    `auth_access_tokens (tokenable_id, type, name, hash, abilities, created_at, updated_at, expires_at)
     values ($1, 'auth_token', $2, $3, $4, now(), now(), ${expiry ?? 'null'})`,
    [userId, name, hash, JSON.stringify(abilities)],
  )
  return { id, value: formatToken(id, secret) }
}
