-- The tables that the gateway keeps in both kinds of database: in the schema of its own tables, or in that of an adopted one.

-- The highest number is that of a migration which a program must know to use the database. A migration writes its own number into
-- all rows, but only where an older program would widen access or break. Each role may read the ledger, to obey it.
alter table sallyport_migrations add column minimum_version bigint not null default 0;
grant select on sallyport_migrations to public;

-- The last good key set of each identity provider, so that a start during its outage can serve. Public keys alone.
create table issuer_keys (issuer text primary key, keys jsonb not null, fetched_at timestamptz not null);

-- The policy table that a gateway took last from a folder, so that a start can say what has changed since.
create table policy_tables (directory text primary key, fingerprint text not null, files jsonb not null,
  taken_at timestamptz not null default now());

-- Orders of "sallyport sessions end". A notification only says that there are new ones, since any login may notify. The
-- order itself is a row, under the rights of this table.
create table session_ends (
  id integer generated always as identity primary key, ordered_at timestamptz not null default clock_timestamp(),
  -- Facts of an exchange; all that are given must hold. No foreign keys: a user may be gone before the order is read.
  user_id integer, organization_id integer, token_id integer, route text, request_id text,
  check (num_nonnulls(user_id, organization_id, token_id, route, request_id) > 0)
);
create index session_ends_ordered_at on session_ends (ordered_at);

-- Logouts that an identity provider told of: logins until "at" of a session, of a subject, or of both have ended. An empty
-- text stands for any. A row outlives the JWTs that it refuses.
create table logouts (
  issuer text not null, subject text not null default '', session text not null default '',
  at timestamptz not null, expires_at timestamptz not null, primary key (issuer, subject, session),
  -- The transaction of the write: a reader asks from the oldest one on that it perhaps did not see.
  changed_in bigint not null default pg_current_xact_id()::text::bigint,
  -- For the triggers. A notification only says that there are rows to read, so all have the same.
  id integer not null default 0 check (id = 0)
);
create index logouts_changed_in on logouts (changed_in);
create index logouts_expires_at on logouts (expires_at);

-- When all replicas together last asked a transmitter for a verification event, and when such an event last came.
create table event_streams (transmitter text primary key, asked_at timestamptz not null, verified_at timestamptz);

-- Identities that were removed. With "directory.kind: both" a JWT asserts memberships, so the next login of a removed
-- identity would bring back what the removal took. A new row of the identity lets it in again.
create table sallyport_directory.removed_identities (
  issuer text not null, subject text not null, primary key (issuer, subject), removed_at timestamptz not null default now()
);

-- It writes with its owner's rights, because a program that deletes users need not know of this table. PostgreSQL looks into
-- the caller's temporary schema first unless the path has it last, and would run the caller's types with those rights.
create function sallyport_note_removed_identities() returns trigger
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
revoke execute on function sallyport_note_removed_identities() from public;
create trigger sallyport_note_insert after insert on user_identities referencing new table as after_rows
  for each statement execute function sallyport_note_removed_identities();
create trigger sallyport_note_update after update on user_identities
  referencing old table as before_rows new table as after_rows
  for each statement execute function sallyport_note_removed_identities();
create trigger sallyport_note_delete after delete on user_identities referencing old table as before_rows
  for each statement execute function sallyport_note_removed_identities();
create trigger sallyport_note_truncate before truncate on user_identities
  for each statement execute function sallyport_note_removed_identities();

-- Rights by default ("alter default privileges") may name one schema and some deeds. A role that they let insert rows has
-- what the gateway needs on these tables too.
do $$
declare
  statement text;
begin
  for statement in
    select format('grant %s on %s to %s', rights, relation,
      case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end)
    from pg_class c cross join aclexplode(c.relacl) acl cross join (values
      ('policy_tables', 'select, insert, update'), ('event_streams', 'select, insert, update'),
      ('session_ends', 'select, insert'), ('logouts', 'select, insert, update, delete'),
      ('token_parents', 'select, insert'), ('token_organizations', 'select, insert'),
      ('sallyport_directory.removed_identities', 'select'), ('sallyport_directory.external_references', 'select, insert')
    ) as needed (relation, rights)
    where c.oid = 'issuer_keys'::regclass and acl.privilege_type = 'INSERT' and to_regclass(relation) is not null
  loop
    execute statement;
  end loop;
end
$$;
