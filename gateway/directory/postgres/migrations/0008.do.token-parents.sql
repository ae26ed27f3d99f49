-- A token that was minted with a token ends with it: which one that was.

create table token_parents (
  id integer generated always as identity primary key,
  token_id integer not null unique references auth_access_tokens (id) on delete cascade,
  -- No foreign key: a parent that is gone must stay named, so that its children are refused.
  parent_id integer not null,
  created_at timestamptz not null default now()
);

create index token_parents_parent on token_parents (parent_id);

create view sallyport_directory.token_parents with (security_invoker) as
  select token_id, parent_id from token_parents;

grant select, insert, update, delete on sallyport_directory.token_parents to public;

-- A role that may mint keeps minting, without another grant.
do $$
declare
  grantee text;
begin
  for grantee in
    select distinct case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end
    from pg_class c, aclexplode(c.relacl) acl
    where c.oid = 'auth_access_tokens'::regclass and acl.privilege_type = 'INSERT'
  loop
    execute format('grant select, insert on token_parents to %s', grantee);
  end loop;
end
$$;

create trigger sallyport_insert after insert on token_parents referencing new table as after_rows
for each statement execute function sallyport_announce_changes('{token:token_id}', '{}');

create trigger sallyport_update after update on token_parents
referencing old table as before_rows new table as after_rows
for each statement execute function sallyport_announce_changes('{token:token_id}', '{}');

create trigger sallyport_delete after delete on token_parents referencing old table as before_rows
for each statement execute function sallyport_announce_changes('{token:token_id}', '{}');

create trigger sallyport_truncate after truncate on token_parents
for each statement execute function sallyport_announce_changes('{token:token_id}', '{}');
