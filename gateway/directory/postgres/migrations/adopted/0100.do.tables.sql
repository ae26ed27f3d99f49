-- An adopted database: users, organizations and tokens are the backend's, and views in the schema "sallyport_directory" lead
-- to them (docs/guides/adopt-a-database.md). The schema is the search path. Dropping it takes everything back, triggers on
-- the backend's tables too. No table has foreign keys: the backend knows the tables that they would lead to.

-- The user of each subject of an identity provider. An identity without a user lets no caller in.
create table user_identities (
  id integer generated always as identity primary key,
  user_id integer not null,
  issuer text not null, subject text not null, unique (issuer, subject), created_at timestamptz not null default now()
);
create index user_identities_user on user_identities (user_id);

-- The token that a token was minted with. It ends with that one, and a parent that is gone stays named for that.
create table token_parents (
  id integer generated always as identity primary key,
  token_id integer not null unique, parent_id integer not null, created_at timestamptz not null default now()
);
create index token_parents_parent on token_parents (parent_id);

-- The organization in which a token was minted. Its administrators list and revoke it; those of other organizations don't.
create table token_organizations (token_id integer primary key, organization_id integer not null,
  created_at timestamptz not null default now());
create index token_organizations_organization on token_organizations (organization_id);

create table audit_events (
  id bigint generated always as identity primary key, at timestamptz not null default now(),
  action text not null check (action in
    ('token.minted', 'token.revoked', 'organization.switched', 'cluster.suspended', 'cluster.resumed',
     'identity.linked', 'sessions.ended', 'sessions.signed_out')),
  actor_id integer, credential text not null, organization_id integer, subject_id integer, token_id integer, cluster_id integer,
  client_address text not null, request_id text not null
);
create index audit_events_at on audit_events (at);
create index audit_events_subject on audit_events (subject_id, at);

-- A backend may have uuids or large integers as keys. The gateway knows each of its records by an integer, which this
-- table gives at first sight and never gives again. Nothing is hashed: two keys never meet in one integer.
create table external_ids (
  kind text not null check (kind in ('user', 'organization', 'role_assignment', 'agent', 'cluster')),
  external_id text not null, unique (kind, external_id), id integer generated always as identity primary key
);
