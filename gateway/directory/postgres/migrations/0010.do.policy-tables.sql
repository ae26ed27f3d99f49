-- The policy table that a gateway took last from a folder, so that a start can say what has changed since.

create table policy_tables (
  directory text primary key,
  fingerprint text not null,
  files jsonb not null,
  taken_at timestamptz not null default now()
);

create view sallyport_directory.policy_tables with (security_invoker) as
  select directory, fingerprint, files, taken_at from policy_tables;

grant select, insert, update, delete on sallyport_directory.policy_tables to public;

-- A role that keeps issuers' keys keeps tables as well, without another grant.
do $$
declare
  grantee text;
begin
  for grantee in
    select distinct case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end
    from pg_class c, aclexplode(c.relacl) acl
    where c.oid = 'issuer_keys'::regclass and acl.privilege_type = 'INSERT'
  loop
    execute format('grant select, insert, update on policy_tables to %s', grantee);
  end loop;
end
$$;
