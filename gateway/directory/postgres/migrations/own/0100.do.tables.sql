-- The tables of a database of the gateway. Other programs may read and write them; the gateway uses the views alone.

create table organizations (
  id serial primary key,
  name text not null, slug text not null unique,
  description text, logo_url text, website_url text, contact_email text, location text, company_size text, domain text,
  account_type text not null default 'individual' check (account_type in ('individual', 'team', 'enterprise')),
  is_verified boolean not null default false,
  created_at timestamptz not null default now(), updated_at timestamptz not null default now(), archived_at timestamptz
);

create table users (
  id serial primary key,
  -- Not unique: the same unverified address under a new subject is a second user.
  email text not null,
  username text, first_name text, last_name text, full_name text,
  user_type text not null check (user_type in ('human', 'client-managed')),
  current_organization_id integer references organizations (id) on delete set null,
  created_at timestamptz not null default now(), updated_at timestamptz not null default now(),
  -- Whether the address is known to be the user's: only then may another identity with that address be linked to it.
  email_verified boolean not null default false, disabled_at timestamptz
);
-- Without case in ASCII alone: by the rules of other collations the Kelvin sign is a "k", and another mailbox.
create index users_email_ascii on users (lower(email collate "C"));

create table user_identities (
  id serial primary key,
  user_id integer not null references users (id) on delete cascade,
  issuer text not null, subject text not null, unique (issuer, subject), created_at timestamptz not null default now()
);
create index user_identities_user on user_identities (user_id);

-- A role in an organization is the membership; without an organization it holds on the platform.
create table role_assignments (
  id serial primary key,
  user_id integer not null references users (id) on delete cascade,
  organization_id integer references organizations (id) on delete cascade,
  role text not null, unique (user_id, organization_id), created_at timestamptz not null default now()
);
create unique index role_assignments_platform on role_assignments (user_id, role) where organization_id is null;
create index role_assignments_organization on role_assignments (organization_id);

-- The layout of AdonisJS access tokens, column for column, so that an existing table keeps working.
create table auth_access_tokens (
  id serial primary key,
  tokenable_id integer not null references users (id) on delete cascade,
  type varchar(255) not null, name varchar(255), hash varchar(255) not null, abilities text not null,
  created_at timestamptz, updated_at timestamptz, last_used_at timestamptz, expires_at timestamptz
);
create index auth_access_tokens_tokenable on auth_access_tokens (tokenable_id);

-- The token that a token was minted with. It ends with that one.
create table token_parents (
  id integer generated always as identity primary key,
  token_id integer not null unique references auth_access_tokens (id) on delete cascade,
  -- No foreign key: a parent that is gone must stay named, so that its children are refused.
  parent_id integer not null, created_at timestamptz not null default now()
);
create index token_parents_parent on token_parents (parent_id);

-- The organization in which a token was minted. Its administrators list and revoke it; those of other organizations don't.
create table token_organizations (
  token_id integer primary key references auth_access_tokens (id) on delete cascade,
  organization_id integer not null references organizations (id) on delete cascade, created_at timestamptz not null default now()
);
create index token_organizations_organization on token_organizations (organization_id);

create table agents (
  id serial primary key,
  organization_id integer not null references organizations (id) on delete cascade,
  name text not null, is_public boolean not null default false, created_at timestamptz not null default now(), archived_at timestamptz
);
-- AuthZEN's searches list the agents of one organization in the order of their ids.
create index on agents (organization_id, id);

create table clusters (
  id serial primary key,
  organization_id integer not null references organizations (id) on delete cascade,
  name text not null, slug text not null, unique (organization_id, slug), base_url text not null,
  status text not null default 'active' check (status in ('active', 'suspended', 'deleting')),
  last_heartbeat_at timestamptz, created_at timestamptz not null default now()
);

-- Each change of credentials, members and rows of the directory, with its author and the caller's address. Never a secret.
create table audit_events (
  id bigserial primary key, at timestamptz not null default now(),
  action text not null check (action in
    ('token.minted', 'token.revoked', 'organization.switched', 'cluster.suspended', 'cluster.resumed',
     'identity.linked', 'organization.created', 'organization.archived', 'member.added', 'member.changed',
     'member.removed', 'user.created', 'user.disabled', 'user.enabled', 'agent.created', 'agent.archived',
     'cluster.created', 'sessions.ended', 'sessions.signed_out')),
  -- The actor is null for the command line. No foreign keys: the trail outlives the rows that it names.
  actor_id integer, credential text not null, organization_id integer, subject_id integer, token_id integer,
  client_address text not null, request_id text not null,
  -- The role is the one that a member was given, or lost.
  cluster_id integer, agent_id integer, role text
);
create index audit_events_at on audit_events (at);
create index audit_events_subject on audit_events (subject_id, at);

-- The names that another system has for rows, so that a command that is run twice creates once.
create table sallyport_directory.external_references (
  kind text not null check (kind in ('organization', 'user', 'agent', 'cluster')),
  external_id text not null, primary key (kind, external_id),
  organization_id integer unique references organizations (id) on delete cascade,
  user_id integer unique references users (id) on delete cascade,
  agent_id integer unique references agents (id) on delete cascade,
  cluster_id integer unique references clusters (id) on delete cascade, created_at timestamptz not null default now(),
  check (num_nonnulls(organization_id, user_id, agent_id, cluster_id) = 1),
  check (case kind when 'organization' then organization_id when 'user' then user_id when 'agent' then agent_id
    else cluster_id end is not null)
);
