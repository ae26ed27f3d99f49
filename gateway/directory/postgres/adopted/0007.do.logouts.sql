-- Logouts that an identity provider told of: logins until "at" of a session, of a subject, or of both together have ended.
-- An empty text stands for any. A row outlives the JWTs that it refuses.

create table sallyport_directory.logouts (
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

create index logouts_changed_in on sallyport_directory.logouts (changed_in);
create index logouts_expires_at on sallyport_directory.logouts (expires_at);

-- A role that keeps issuers' keys keeps logouts as well, without another grant.
do $$
declare
  grantee text;
begin
  for grantee in
    select distinct case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end
    from pg_class c, aclexplode(c.relacl) acl
    where c.oid = 'sallyport_directory.issuer_keys'::regclass and acl.privilege_type = 'INSERT'
  loop
    execute format('grant select, insert, update, delete on sallyport_directory.logouts to %s', grantee);
  end loop;
end
$$;

call sallyport_directory.watch('sallyport_directory.logouts', '{logout:id}', '{}', '{insert,update}');

alter table sallyport_directory.audit_events
  drop constraint audit_events_action_check,
  add constraint audit_events_action_check check (action in
    ('token.minted', 'token.revoked', 'organization.switched', 'cluster.suspended', 'cluster.resumed',
     'identity.linked', 'sessions.ended', 'sessions.signed_out'));
