-- Identities that were removed. With "directory.kind: both" a JWT asserts memberships, so the next login of a removed
-- identity would bring back what the removal took. A new row of the identity lets it in again.

create table sallyport_directory.removed_identities (
  issuer text not null,
  subject text not null,
  removed_at timestamptz not null default now(),
  primary key (issuer, subject)
);

-- It writes with its owner's rights, because a program that deletes users need not know of this table.
create function sallyport_directory.note_removed_identities() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'TRUNCATE' then
    execute format(
      'insert into sallyport_directory.removed_identities (issuer, subject) select issuer, subject from %I.%I
       on conflict do nothing', tg_table_schema, tg_table_name
    );
    return null;
  end if;
  if tg_op <> 'INSERT' then
    -- In order, so that two statements do not wait for each other in a circle.
    insert into sallyport_directory.removed_identities (issuer, subject)
      select issuer, subject from before_rows order by 1, 2 on conflict do nothing;
  end if;
  if tg_op <> 'DELETE' then
    delete from sallyport_directory.removed_identities r
      using after_rows a where r.issuer = a.issuer and r.subject = a.subject;
  end if;
  return null;
end
$$;

revoke execute on function sallyport_directory.note_removed_identities() from public;

create trigger sallyport_note_insert after insert on sallyport_directory.user_identities referencing new table as after_rows
for each statement execute function sallyport_directory.note_removed_identities();

create trigger sallyport_note_update after update on sallyport_directory.user_identities
referencing old table as before_rows new table as after_rows
for each statement execute function sallyport_directory.note_removed_identities();

create trigger sallyport_note_delete after delete on sallyport_directory.user_identities referencing old table as before_rows
for each statement execute function sallyport_directory.note_removed_identities();

create trigger sallyport_note_truncate before truncate on sallyport_directory.user_identities
for each statement execute function sallyport_directory.note_removed_identities();

-- A role that creates identities looks for removed ones, without another grant.
do $$
declare
  grantee text;
begin
  for grantee in
    select distinct case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end
    from pg_class c, aclexplode(c.relacl) acl
    where c.oid = 'sallyport_directory.user_identities'::regclass and acl.privilege_type = 'INSERT'
  loop
    execute format('grant select on sallyport_directory.removed_identities to %s', grantee);
  end loop;
end
$$;
