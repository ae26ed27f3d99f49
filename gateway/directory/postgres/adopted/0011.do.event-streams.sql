-- The verification of event streams: when a transmitter was last asked for an event by all replicas together, and when the
-- event was asked for that came last.

create table sallyport_directory.event_streams (
  transmitter text primary key,
  asked_at timestamptz not null,
  verified_at timestamptz
);

-- A role that keeps issuers' keys keeps these as well, without another grant.
do $$
declare
  grantee text;
begin
  for grantee in
    select distinct case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end
    from pg_class c, aclexplode(c.relacl) acl
    where c.oid = 'sallyport_directory.issuer_keys'::regclass and acl.privilege_type = 'INSERT'
  loop
    execute format('grant select, insert, update on sallyport_directory.event_streams to %s', grantee);
  end loop;
end
$$;
