-- Who there is, and what belongs to whom.

create table organizations (
  id serial primary key,
  name text not null,
  slug text not null unique,
  description text,
  logo_url text,
  website_url text,
  contact_email text,
  location text,
  company_size text,
  domain text,
  account_type text not null default 'individual' check (account_type in ('individual', 'team', 'enterprise')),
  is_verified boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create table users (
  id serial primary key,
  -- Not unique: the same unverified address under a new subject is a second user.
  email text not null,
  username text,
  first_name text,
  last_name text,
  full_name text,
  user_type text not null check (user_type in ('human', 'client-managed')),
  current_organization_id integer references organizations (id) on delete set null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create index users_email on users (lower(email));

create table user_identities (
  id serial primary key,
  user_id integer not null references users (id) on delete cascade,
  issuer text not null,
  subject text not null,
  created_at timestamptz not null default now(),
  unique (issuer, subject)
);

create index user_identities_user on user_identities (user_id);

-- A role in an organization is the membership; without an organization it holds on the platform.
create table role_assignments (
  id serial primary key,
  user_id integer not null references users (id) on delete cascade,
  organization_id integer references organizations (id) on delete cascade,
  role text not null,
  created_at timestamptz not null default now(),
  unique (user_id, organization_id)
);

create unique index role_assignments_platform on role_assignments (user_id, role) where organization_id is null;
create index role_assignments_organization on role_assignments (organization_id);

-- The layout of AdonisJS access tokens, column for column, so that an existing table keeps working.
create table auth_access_tokens (
  id serial primary key,
  tokenable_id integer not null references users (id) on delete cascade,
  type varchar(255) not null,
  name varchar(255),
  hash varchar(255) not null,
  abilities text not null,
  created_at timestamptz,
  updated_at timestamptz,
  last_used_at timestamptz,
  expires_at timestamptz
);

create index auth_access_tokens_tokenable on auth_access_tokens (tokenable_id);

create table agents (
  id serial primary key,
  organization_id integer not null references organizations (id) on delete cascade,
  name text not null,
  is_public boolean not null default false,
  created_at timestamptz not null default now()
);

create table clusters (
  id serial primary key,
  organization_id integer not null references organizations (id) on delete cascade,
  name text not null,
  slug text not null,
  base_url text not null,
  status text not null default 'active' check (status in ('active', 'suspended', 'deleting')),
  last_heartbeat_at timestamptz,
  created_at timestamptz not null default now(),
  unique (organization_id, slug)
);
