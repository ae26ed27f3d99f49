-- What was done to credentials and current organizations: who, for whom, from where. Never a secret.

create table audit_events (
  id bigserial primary key,
  at timestamptz not null default now(),
  action text not null check (action in ('token.minted', 'token.revoked', 'organization.switched')),
  -- No foreign keys: the trail outlives what it speaks of.
  actor_id integer not null,
  credential text not null,
  organization_id integer,
  subject_id integer not null,
  token_id integer,
  client_address text not null,
  request_id text not null
);

create index audit_events_at on audit_events (at);
create index audit_events_subject on audit_events (subject_id, at);
