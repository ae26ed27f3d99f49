-- An adopted database: users, organizations and tokens are the backend's, who maps them by views in this schema
-- (docs/guides/adopt-a-database.md). Here is only what is the gateway's own. Dropping the schema takes everything back,
-- triggers on the backend's tables too.

-- Which user a subject of an identity provider is.
create table sallyport_directory.user_identities (
  id integer generated always as identity primary key,
  -- No foreign key: whose table it would lead to, the backend knows. An identity without a user lets nobody in.
  user_id integer not null,
  issuer text not null,
  subject text not null,
  created_at timestamptz not null default now(),
  unique (issuer, subject)
);

create index user_identities_user on sallyport_directory.user_identities (user_id);

create table sallyport_directory.issuer_keys (
  issuer text primary key,
  keys jsonb not null,
  fetched_at timestamptz not null
);

create table sallyport_directory.audit_events (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  action text not null check (action in
    ('token.minted', 'token.revoked', 'organization.switched', 'cluster.suspended', 'cluster.resumed')),
  actor_id integer,
  credential text not null,
  organization_id integer,
  subject_id integer,
  token_id integer,
  cluster_id integer,
  client_address text not null,
  request_id text not null
);

create index audit_events_at on sallyport_directory.audit_events (at);
create index audit_events_subject on sallyport_directory.audit_events (subject_id, at);

-- None, until the backend says otherwise: "create or replace view" with the same columns.
create view sallyport_directory.agents as
  select null::integer as id, null::integer as organization_id, null::boolean as is_public
  where false;

create view sallyport_directory.clusters as
  select null::integer as id, null::integer as organization_id, null::text as slug, null::text as base_url,
    null::text as status, null::timestamptz as last_heartbeat_at
  where false;

-- As in our own tables (migration 0003), and "everything" for a table whose rows name no subject.
-- Arguments: the subjects, each as kind:column, and the columns that do not count.
create function sallyport_directory.announce_changes() returns trigger language plpgsql set search_path = pg_catalog as $$
declare
  subjects text[] := tg_argv[0];
  ignored text[] := tg_argv[1];
  most constant integer := 100;
  changed jsonb[];
  payload text;
begin
  if cardinality(subjects) = 0 then
    -- A statement that met no row has changed nothing.
    if tg_op = 'DELETE' then
      perform from before_rows limit 1;
    elsif tg_op <> 'TRUNCATE' then
      perform from after_rows limit 1;
    end if;
    if found or tg_op = 'TRUNCATE' then
      perform pg_notify('sallyport_changes', '{"kind":"everything"}');
    end if;
    return null;
  elsif tg_op = 'TRUNCATE' then
    perform pg_notify('sallyport_changes', '{"kind":"everything"}');
    return null;
  elsif tg_op = 'INSERT' then
    select array_agg(row) into changed from (select to_jsonb(a) as row from after_rows a limit most + 1) rows;
  elsif tg_op = 'DELETE' then
    select array_agg(row) into changed from (select to_jsonb(b) as row from before_rows b limit most + 1) rows;
  else
    -- Both sides of every row that now reads otherwise: it may have gone from one owner to another.
    select array_agg(row) into changed from (
      select side as row
      from (select id, to_jsonb(b) - ignored as was from before_rows b) b
      full join (select id, to_jsonb(a) - ignored as reads from after_rows a) a using (id)
      cross join lateral (values (was), (reads)) as sides (side)
      where was is distinct from reads and side is not null
      limit 2 * most + 1
    ) rows;
  end if;
  if cardinality(changed) > most * (1 + (tg_op = 'UPDATE')::integer) then
    perform pg_notify('sallyport_changes', '{"kind":"everything"}');
    return null;
  end if;
  for payload in
    select distinct json_build_object(
      'kind', split_part(subject, ':', 1), 'id', (row ->> split_part(subject, ':', 2))::bigint
    )::text
    from unnest(changed) as row, unnest(subjects) as subject
    where row ->> split_part(subject, ':', 2) is not null
  loop
    perform pg_notify('sallyport_changes', payload);
  end loop;
  return null;
end
$$;

-- Has a table tell of its changes. May be called again, with other arguments.
create procedure sallyport_directory.watch(
  relation regclass,
  subjects text[] default '{}',
  ignored text[] default '{}',
  events text[] default '{insert,update,delete}'
) language plpgsql set search_path = pg_catalog as $$
declare
  event text;
  missing text;
begin
  -- A trigger that fails would fail the backend's own statement: better now than then.
  select string_agg(wanted, ', ') into missing
  from (
    select 'id' as wanted where cardinality(subjects) > 0
    union select split_part(subject, ':', 2) from unnest(subjects) as subject
    union select unnest(ignored)
  ) as columns
  where not exists (select from pg_attribute where attrelid = relation and attname = wanted and attnum > 0);
  if missing is not null then
    raise exception 'table % has no column %', relation, missing;
  end if;
  select string_agg(attname, ', ') into missing
  from pg_attribute
  where attrelid = relation and attnum > 0 and atttypid not in ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)
    and attname in (select split_part(subject, ':', 2) from unnest(subjects) as subject);
  if missing is not null then
    raise exception 'column % of table % is no integer, and names nothing that the gateway knows', missing, relation
      using hint = 'Leave the subjects out: every change then tells of everything.';
  end if;
  foreach event in array array['insert', 'update', 'delete', 'truncate'] loop
    -- What an earlier call asked for and this one does not.
    execute format('drop trigger if exists sallyport_%s on %s', event, relation);
    continue when event <> 'truncate' and event <> all (events);
    -- Transition tables allow one event a trigger.
    execute format(
      'create trigger sallyport_%s after %s on %s %s for each statement
       execute function sallyport_directory.announce_changes(%L, %L)',
      event, event, relation,
      case event
        when 'insert' then 'referencing new table as after_rows'
        when 'delete' then 'referencing old table as before_rows'
        when 'update' then 'referencing old table as before_rows new table as after_rows'
        else ''
      end,
      subjects, ignored
    );
  end loop;
end
$$;

call sallyport_directory.watch('sallyport_directory.user_identities', '{user:user_id}');
