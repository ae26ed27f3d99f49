-- The last good key set of each identity provider, so that a start during its outage can serve. Public keys alone.

create table issuer_keys (
  issuer text primary key,
  keys jsonb not null,
  fetched_at timestamptz not null
);
