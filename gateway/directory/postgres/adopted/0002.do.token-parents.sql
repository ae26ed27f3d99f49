-- A token that was minted with a token ends with it: which one that was. Beside the backend's tokens, whose table stays
-- as it is.

create table sallyport_directory.token_parents (
  id integer generated always as identity primary key,
  -- No foreign keys: the backend knows which table they would lead to. A parent that is gone must stay named, so that
  -- its children are refused.
  token_id integer not null unique,
  parent_id integer not null,
  created_at timestamptz not null default now()
);

create index token_parents_parent on sallyport_directory.token_parents (parent_id);

-- A role that the backend lets mint keeps minting, without another grant.
do $$
declare
  grantee text;
begin
  for grantee in
    select distinct case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end
    from pg_class c, aclexplode(c.relacl) acl
    where c.oid = 'sallyport_directory.user_identities'::regclass and acl.privilege_type = 'INSERT'
  loop
    execute format('grant select, insert on sallyport_directory.token_parents to %s', grantee);
  end loop;
end
$$;

call sallyport_directory.watch('sallyport_directory.token_parents', '{token:token_id}');
