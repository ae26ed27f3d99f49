/** The tables that a backend's migrations make on AdonisJS (`app/database`), for tests that need no AdonisJS itself. */
export const backendTables = `
  create table organizations (id serial primary key, name varchar(255) not null, slug varchar(255) not null unique,
    description text, logo_url varchar(255), website_url varchar(255), contact_email varchar(255),
    location varchar(255), company_size varchar(255), domain varchar(255), account_type text not null,
    is_verified boolean not null default false, created_at timestamptz not null, updated_at timestamptz);
  create table users (id serial primary key, full_name varchar(255), email varchar(254) not null unique,
    password varchar(255) not null, created_at timestamptz not null, updated_at timestamptz, username varchar(255),
    user_type text not null default 'human', deleted_at timestamptz,
    current_organization_id integer references organizations on delete set null);
  create table auth_access_tokens (id serial primary key, tokenable_id integer not null references users on delete cascade,
    type varchar(255) not null, name varchar(255), hash varchar(255) not null, abilities text not null,
    created_at timestamptz, updated_at timestamptz, last_used_at timestamptz, expires_at timestamptz);
  create table roles (id serial primary key, name varchar(255) not null, slug varchar(255) not null unique);
  create table user_roles (id serial primary key, user_id integer not null references users on delete cascade,
    role_id integer not null references roles, organization_id integer references organizations on delete cascade);
  create index on user_roles (user_id);
  create index on user_roles (organization_id);
  create index on auth_access_tokens (tokenable_id);
  create table agents (id serial primary key, organization_id integer not null references organizations,
    visibility varchar(255) not null default 'private');
  create index on agents (organization_id);
  create table data_clusters (id serial primary key, organization_id integer not null references organizations,
    slug varchar(255) not null, url varchar(255) not null, status varchar(255) not null default 'active',
    heartbeat_at timestamptz)`

export const backendRows = `
  insert into organizations (name, slug, account_type, created_at) values ('Acme', 'acme', 'enterprise', now());
  insert into users (email, password, user_type, created_at) values ('robot@acme.example', 'x', 'client-managed', now());
  insert into roles (name, slug) values ('Admin', 'org-admin'), ('Member', 'org-member');
  insert into user_roles (user_id, role_id, organization_id) values (1, 1, 1);
  insert into auth_access_tokens (tokenable_id, type, hash, abilities) values (1, 'auth_token', repeat('a', 64), '["*"]');
  insert into agents (organization_id) values (1);
  insert into data_clusters (organization_id, slug, url) values (1, 'a', 'http://a.example')`
