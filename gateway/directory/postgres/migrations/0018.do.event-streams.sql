-- The verification of event streams: when a transmitter was last asked for an event by all replicas together, and when the
-- event was asked for that came last.

create table event_streams (
  transmitter text primary key,
  asked_at timestamptz not null,
  verified_at timestamptz
);

create view sallyport_directory.event_streams with (security_invoker) as
  select transmitter, asked_at, verified_at from event_streams;

grant select, insert, update on sallyport_directory.event_streams to public;

-- A role that keeps issuers' keys keeps these as well, without another grant.
do $$
declare
  grantee text;
begin
  for grantee in
    select distinct case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end
    from pg_class c, aclexplode(c.relacl) acl
    where c.oid = 'issuer_keys'::regclass and acl.privilege_type = 'INSERT'
  loop
    execute format('grant select, insert, update on event_streams to %s', grantee);
  end loop;
end
$$;
