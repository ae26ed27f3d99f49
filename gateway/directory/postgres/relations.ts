import type { ResourceKind } from '../../policy/resource-kind.ts'

export type ColumnType = `${'integer' | 'bigint' | 'uuid' | 'text' | 'boolean' | 'timestamptz' | 'jsonb'}${'' | '?'}`

export type Relation = Readonly<{
  name: string
  columns: Readonly<Record<string, ColumnType>>
  optional?: readonly string[]
  inserts?: readonly string[]
  updates?: readonly string[]
  deletes?: boolean
  tells?: readonly ('insert' | 'update' | 'delete')[]
}>

export const relationsWith = (kinds: readonly ResourceKind[]): readonly Relation[] => [
  ...relations,
  ...kinds.map(
    ({ name, idType, hasOwner, hasVisibility, parent }): Relation => ({
      name: `resources_${name}`,
      columns: {
        id: idType,
        organization_id: 'integer',
        ...(hasOwner && { owner_id: 'integer?' }),
        ...(hasVisibility && { visibility: 'text' }),
        ...(parent && { parent: parent.idType }),
      },
      tells: ['insert', 'update', 'delete'],
    }),
  ),
]

export const removedIdentities: Relation = {
  name: 'removed_identities',
  columns: { issuer: 'text', subject: 'text', removed_at: 'timestamptz' },
}

export const relations: readonly Relation[] = [
  {
    name: 'users',
    columns: {
      id: 'integer',
      email: 'text',
      username: 'text?',
      first_name: 'text?',
      last_name: 'text?',
      full_name: 'text?',
      user_type: 'text',
      current_organization_id: 'integer?',
      updated_at: 'timestamptz?',
      email_verified: 'boolean?',
    },
    optional: ['email_verified'],
    inserts: ['email', 'username', 'first_name', 'last_name', 'full_name', 'user_type'],
    updates: ['current_organization_id', 'updated_at'],
    // An absence is cached for under a second, so inserts need no announcement.
    tells: ['update', 'delete'],
  },
  {
    name: 'user_identities',
    columns: { user_id: 'integer', issuer: 'text', subject: 'text' },
    inserts: ['user_id', 'issuer', 'subject'],
    tells: ['insert', 'update', 'delete'],
  },
  {
    name: 'role_assignments',
    columns: { id: 'integer', user_id: 'integer', organization_id: 'integer?', role: 'text' },
    tells: ['insert', 'update', 'delete'],
  },
  {
    name: 'organizations',
    columns: {
      id: 'integer',
      name: 'text',
      slug: 'text',
      description: 'text?',
      logo_url: 'text?',
      website_url: 'text?',
      contact_email: 'text?',
      location: 'text?',
      company_size: 'text?',
      domain: 'text?',
      account_type: 'text',
      is_verified: 'boolean',
      created_at: 'timestamptz',
      updated_at: 'timestamptz',
    },
    tells: ['insert', 'update', 'delete'],
  },
  {
    name: 'auth_access_tokens',
    columns: {
      id: 'integer',
      tokenable_id: 'integer',
      type: 'text',
      name: 'text?',
      hash: 'text',
      abilities: 'text',
      created_at: 'timestamptz?',
      updated_at: 'timestamptz?',
      last_used_at: 'timestamptz?',
      expires_at: 'timestamptz?',
    },
    inserts: ['tokenable_id', 'type', 'name', 'hash', 'abilities', 'created_at', 'updated_at', 'expires_at'],
    updates: ['last_used_at'],
    deletes: true,
    tells: ['update', 'delete'],
  },
  {
    name: 'token_parents',
    columns: { token_id: 'integer', parent_id: 'integer' },
    inserts: ['token_id', 'parent_id'],
    tells: ['insert', 'update', 'delete'],
  },
  {
    name: 'token_organizations',
    columns: { token_id: 'integer', organization_id: 'integer' },
    inserts: ['token_id', 'organization_id'],
  },
  {
    name: 'agents',
    columns: { id: 'integer', organization_id: 'integer', is_public: 'boolean' },
    tells: ['insert', 'update', 'delete'],
  },
  {
    name: 'clusters',
    columns: {
      id: 'integer',
      organization_id: 'integer',
      slug: 'text',
      base_url: 'text',
      status: 'text',
      last_heartbeat_at: 'timestamptz?',
    },
    updates: ['status', 'last_heartbeat_at'],
    tells: ['insert', 'update', 'delete'],
  },
  {
    name: 'issuer_keys',
    columns: { issuer: 'text', keys: 'jsonb', fetched_at: 'timestamptz' },
    inserts: ['issuer', 'keys', 'fetched_at'],
    updates: ['keys', 'fetched_at'],
  },
  {
    name: 'policy_tables',
    columns: { directory: 'text', fingerprint: 'text', files: 'jsonb', taken_at: 'timestamptz' },
    inserts: ['directory', 'fingerprint', 'files', 'taken_at'],
    updates: ['fingerprint', 'files', 'taken_at'],
  },
  {
    name: 'session_ends',
    columns: {
      id: 'integer',
      ordered_at: 'timestamptz',
      user_id: 'integer?',
      organization_id: 'integer?',
      token_id: 'integer?',
      route: 'text?',
      request_id: 'text?',
    },
    inserts: ['user_id', 'organization_id', 'token_id', 'route', 'request_id'],
    tells: ['insert'],
  },
  {
    name: 'logouts',
    columns: {
      issuer: 'text',
      subject: 'text',
      session: 'text',
      at: 'timestamptz',
      expires_at: 'timestamptz',
      changed_in: 'bigint',
    },
    inserts: ['issuer', 'subject', 'session', 'at', 'expires_at', 'changed_in'],
    updates: ['at', 'expires_at', 'changed_in'],
    deletes: true,
    tells: ['insert', 'update'],
  },
  {
    name: 'event_streams',
    columns: { transmitter: 'text', asked_at: 'timestamptz', verified_at: 'timestamptz?' },
    inserts: ['transmitter', 'asked_at'],
    updates: ['asked_at', 'verified_at'],
  },
  {
    name: 'audit_events',
    columns: {
      at: 'timestamptz',
      action: 'text',
      actor_id: 'integer?',
      credential: 'text',
      organization_id: 'integer?',
      subject_id: 'integer?',
      token_id: 'integer?',
      cluster_id: 'integer?',
      client_address: 'text',
      request_id: 'text',
    },
    inserts: [
      'action',
      'actor_id',
      'credential',
      'organization_id',
      'subject_id',
      'token_id',
      'cluster_id',
      'client_address',
      'request_id',
    ],
  },
]
