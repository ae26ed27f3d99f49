-- Orders of operators to end what is open: "sallyport sessions end". A notification only says that there are new ones,
-- since any login may notify; the order itself is a row, under the grants of this table.

create table sallyport_directory.session_ends (
  id integer generated always as identity primary key,
  ordered_at timestamptz not null default clock_timestamp(),
  -- Facts of an exchange; all that are given must hold.
  user_id integer,
  organization_id integer,
  token_id integer,
  route text,
  request_id text,
  check (num_nonnulls(user_id, organization_id, token_id, route, request_id) > 0)
);

create index session_ends_ordered_at on sallyport_directory.session_ends (ordered_at);

-- A role that keeps issuers' keys reads and writes orders as well, without another grant.
do $$
declare
  grantee text;
begin
  for grantee in
    select distinct case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end
    from pg_class c, aclexplode(c.relacl) acl
    where c.oid = 'sallyport_directory.issuer_keys'::regclass and acl.privilege_type = 'INSERT'
  loop
    execute format('grant select, insert on sallyport_directory.session_ends to %s', grantee);
  end loop;
end
$$;

call sallyport_directory.watch('sallyport_directory.session_ends', '{session-end:id}', '{}', '{insert}');

alter table sallyport_directory.audit_events
  drop constraint audit_events_action_check,
  add constraint audit_events_action_check check (action in
    ('token.minted', 'token.revoked', 'organization.switched', 'cluster.suspended', 'cluster.resumed',
     'identity.linked', 'sessions.ended'));
