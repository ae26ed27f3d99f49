-- Logouts that an identity provider told of: logins until "at" of a session, of a subject, or of both together have ended.
-- An empty text stands for any. A row outlives the JWTs that it refuses.

create table logouts (
  issuer text not null,
  subject text not null default '',
  session text not null default '',
  at timestamptz not null,
  expires_at timestamptz not null,
  -- The transaction that wrote it: a reader asks from the oldest one on that it perhaps did not see.
  changed_in bigint not null default pg_current_xact_id()::text::bigint,
  -- For the triggers. A notification only says that there are rows to read, so all have the same.
  id integer not null default 0 check (id = 0),
  primary key (issuer, subject, session)
);

create index logouts_changed_in on logouts (changed_in);
create index logouts_expires_at on logouts (expires_at);

create view sallyport_directory.logouts with (security_invoker) as
  select issuer, subject, session, at, expires_at, changed_in from logouts;

grant select, insert, update, delete on sallyport_directory.logouts to public;

-- A role that keeps issuers' keys keeps logouts as well, without another grant.
do $$
declare
  grantee text;
begin
  for grantee in
    select distinct case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end
    from pg_class c, aclexplode(c.relacl) acl
    where c.oid = 'issuer_keys'::regclass and acl.privilege_type = 'INSERT'
  loop
    execute format('grant select, insert, update, delete on logouts to %s', grantee);
  end loop;
end
$$;

create trigger sallyport_insert after insert on logouts referencing new table as after_rows
  for each statement execute function sallyport_announce_changes('{logout:id}', '{}');
create trigger sallyport_update after update on logouts referencing old table as before_rows new table as after_rows
  for each statement execute function sallyport_announce_changes('{logout:id}', '{}');
create trigger sallyport_truncate after truncate on logouts
  for each statement execute function sallyport_announce_changes('{logout:id}', '{}');

alter table audit_events
  drop constraint audit_events_action_check,
  add constraint audit_events_action_check check (action in
    ('token.minted', 'token.revoked', 'organization.switched', 'cluster.suspended', 'cluster.resumed',
     'identity.linked', 'organization.created', 'organization.archived', 'member.added', 'member.changed',
     'member.removed', 'user.created', 'user.disabled', 'user.enabled', 'agent.created', 'agent.archived',
     'cluster.created', 'sessions.ended', 'sessions.signed_out'));
