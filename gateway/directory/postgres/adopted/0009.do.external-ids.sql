-- A backend may have uuids or large integers as keys. The gateway knows each of its records by an integer, which this
-- table gives at first sight and never gives again. Nothing is hashed: two keys never meet in one integer.

create table sallyport_directory.external_ids (
  kind text not null check (kind in ('user', 'organization', 'role_assignment', 'agent', 'cluster')),
  external_id text not null,
  id integer generated always as identity primary key,
  unique (kind, external_id)
);

-- The kind of number behind a subject of "watch", or null.
create function sallyport_directory.numbered_kind(subject text) returns text
language sql immutable set search_path = pg_catalog as $$
  select case
    when kind = 'members' or starts_with(kind, 'resource/') then 'organization'
    when kind in ('user', 'organization', 'role_assignment', 'agent', 'cluster') then kind
  end
  from split_part(subject, ':', 1) as kind
$$;

-- The view with the backend's own keys: the one that "number_views" put aside, or the view itself.
create function sallyport_directory.keyed_view(name text) returns regclass
language sql stable set search_path = pg_catalog as $$
  select coalesce(
    (
      select d.refobjid::regclass
      from pg_rewrite r join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
      where r.ev_class = to_regclass('sallyport_directory.' || quote_ident(name)) and d.refclassid = 'pg_class'::regclass
        and d.refobjid = to_regclass('sallyport_directory.' || quote_ident('external_' || name))
      limit 1
    ),
    to_regclass('sallyport_directory.' || quote_ident(name))
  )
$$;

create function sallyport_directory.is_numbered(kind text) returns boolean
language sql stable set search_path = pg_catalog as $$
  select exists (
    select from pg_attribute
    where attrelid = sallyport_directory.keyed_view(kind || 's') and attname = 'id'
      and atttypid not in ('int2'::regtype, 'int4'::regtype)
  )
$$;

-- As "announce_changes", for tables with such keys: numbers what is new, and names records by their numbers. It writes
-- with its owner's rights, so only its owner may put it on tables. A failure never fails the backend's own statement:
-- "everything" stands for what could not be named, and a record without a number is in no view.
create function sallyport_directory.announce_numbered() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
declare
  subjects text[] := tg_argv[0];
  ignored text[] := tg_argv[1];
  -- An update has two sides of each row.
  most constant integer := case tg_op when 'UPDATE' then 20000 else 10000 end;
  few constant integer := case tg_op when 'UPDATE' then 200 else 100 end;
  changed jsonb[];
  payload text;
begin
  if tg_op = 'TRUNCATE' then
    perform pg_notify('sallyport_changes', '{"kind":"everything"}');
    return null;
  elsif tg_op = 'DELETE' then
    select array_agg(row) into changed from (select to_jsonb(b) as row from before_rows b limit most + 1) rows;
  else
    -- In order, so that two statements with the same new keys do not wait for each other in a circle.
    insert into sallyport_directory.external_ids (kind, external_id)
    select distinct sallyport_directory.numbered_kind(subject), key
    from after_rows a
    cross join lateral to_jsonb(a) as row
    cross join unnest(subjects) as subject
    cross join lateral (select row ->> split_part(subject, ':', 2) as key) keys
    where split_part(subject, ':', 3) = 'external' and key is not null and not exists (
      select from sallyport_directory.external_ids x
      where x.kind = sallyport_directory.numbered_kind(subject) and x.external_id = key
    )
    order by 1, 2
    on conflict do nothing;
    if tg_op = 'INSERT' then
      select array_agg(row) into changed from (select to_jsonb(a) as row from after_rows a limit most + 1) rows;
    else
      select array_agg(row) into changed from (
        select side as row
        from (select was, was ->> 'id' as key from (select to_jsonb(b) - ignored as was from before_rows b) w) b
        full join (select reads, reads ->> 'id' as key from (select to_jsonb(a) - ignored as reads from after_rows a) r) a
          using (key)
        cross join lateral (values (was), (reads)) as sides (side)
        where was is distinct from reads and side is not null
        limit most + 1
      ) rows;
    end if;
  end if;
  if cardinality(changed) > most or exists (
    select from unnest(changed) as row, unnest(subjects) as subject
    where not row ? split_part(subject, ':', 2)
      or split_part(subject, ':', 3) = '' and row ->> split_part(subject, ':', 2) !~ '^-?[0-9]{1,18}$'
  ) then
    perform pg_notify('sallyport_changes', '{"kind":"everything"}');
    return null;
  end if;
  for payload in
    select case
        when bool_or(id is null) then '{"kind":"everything"}'
        when count(*) = 1 then json_build_object('kind', kind, 'id', min(id))::text
        else json_build_object('kind', kind, 'ids', json_agg(id))::text
      end
    from (
      -- A message holds less than 8,000 bytes.
      select kind, id, row_number() over (partition by kind order by id) / case when cardinality(changed) > few then 300 else 1 end
        as part
      from (
        select distinct split_part(subject, ':', 1) as kind,
          case when split_part(subject, ':', 3) = 'external' then x.id::bigint else key::bigint end as id
        from unnest(changed) as row
        cross join unnest(subjects) as subject
        cross join lateral (select row ->> split_part(subject, ':', 2) as key) keys
        left join sallyport_directory.external_ids x
          on x.kind = sallyport_directory.numbered_kind(subject) and x.external_id = key
        -- No cache holds a role by its own number.
        where key is not null and not starts_with(subject, 'role_assignment:')
      ) named
    ) numbered
    group by kind, part
  loop
    perform pg_notify('sallyport_changes', payload);
  end loop;
  return null;
exception when others then
  raise warning 'sallyport: a change of table % could not be numbered (%)', tg_relid::regclass, sqlstate;
  perform pg_notify('sallyport_changes', '{"kind":"everything"}');
  return null;
end
$$;

revoke execute on function sallyport_directory.announce_numbered() from public;

-- Has a table tell of its changes, and numbers its keys where the views have others than integers.
create or replace procedure sallyport_directory.watch(
  relation regclass,
  subjects text[] default '{}',
  ignored text[] default '{}',
  events text[] default '{insert,update,delete}'
) language plpgsql set search_path = pg_catalog as $$
declare
  event text;
  missing text;
  subject text;
  given bigint;
begin
  select coalesce(array_agg(split_part(s, ':', 1) || ':' || split_part(s, ':', 2) || case when n.is_numbered then ':external' else '' end), '{}')
    into subjects
    from unnest(subjects) as s
    join pg_class c on c.oid = relation
    cross join lateral (
      -- The gateway's own tables have numbers already.
      select c.relnamespace <> 'sallyport_directory'::regnamespace
        and sallyport_directory.is_numbered(sallyport_directory.numbered_kind(s)) as is_numbered
    ) n
    -- Gateways hear nothing of a role by its own id.
    where n.is_numbered or not starts_with(s, 'role_assignment:');
  -- A trigger that fails would fail the backend's own statement: better now than then.
  select string_agg(wanted, ', ') into missing
  from (
    select 'id' as wanted where cardinality(subjects) > 0
    union select split_part(s, ':', 2) from unnest(subjects) as s
    union select unnest(ignored)
  ) as columns
  where not exists (select from pg_attribute where attrelid = relation and attname = wanted and attnum > 0);
  if missing is not null then
    raise exception 'table % has no column %', relation, missing;
  end if;
  select string_agg(attname, ', ') into missing
  from pg_attribute
  where attrelid = relation and attnum > 0 and atttypid not in ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)
    and attname in (select split_part(s, ':', 2) from unnest(subjects) as s where split_part(s, ':', 3) = '');
  if missing is not null then
    raise exception 'column % of table % is no integer, and names nothing that the gateway knows', missing, relation
      using hint = 'Create the views with these keys first, or leave the subjects out: every change then tells of everything.';
  end if;
  if 'user:external' = any (select split_part(s, ':', 1) || ':' || split_part(s, ':', 3) from unnest(subjects) as s)
    and not exists (select from sallyport_directory.external_ids where kind = 'user')
    and exists (select from sallyport_directory.user_identities)
  then
    raise exception 'sallyport_directory.user_identities names users by other integers than their new numbers'
      using hint = 'Delete its rows: a login that keeps an old integer would become another user.';
  end if;
  if exists (select from unnest(subjects) as s where split_part(s, ':', 3) <> '') and not events @> '{insert,update}' then
    raise exception 'table % has keys to number, and must tell of insert and update', relation;
  end if;
  foreach event in array array['insert', 'update', 'delete', 'truncate'] loop
    -- What an earlier call asked for and this one does not.
    execute format('drop trigger if exists sallyport_%s on %s', event, relation);
    continue when event <> 'truncate' and event <> all (events);
    -- Transition tables allow one event a trigger.
    execute format(
      'create trigger sallyport_%s after %s on %s %s for each statement
       execute function sallyport_directory.%s(%L, %L)',
      event, event, relation,
      case event
        when 'insert' then 'referencing new table as after_rows'
        when 'delete' then 'referencing old table as before_rows'
        when 'update' then 'referencing old table as before_rows new table as after_rows'
        else ''
      end,
      case when exists (select from unnest(subjects) as s where split_part(s, ':', 3) <> '')
        then 'announce_numbered' else 'announce_changes' end,
      subjects, ignored
    );
  end loop;
  -- The triggers' lock keeps writers away until the commit, so that no row is missed between.
  foreach subject in array subjects loop
    continue when split_part(subject, ':', 3) = '';
    execute format(
      'insert into sallyport_directory.external_ids (kind, external_id)
       select distinct %1$L, to_jsonb(k) #>> ''{}'' from (select %2$I as k from %3$s where %2$I is not null) keys
       where not exists (
         select from sallyport_directory.external_ids x where x.kind = %1$L and x.external_id = to_jsonb(k) #>> ''{}''
       )
       order by 2 on conflict do nothing',
      sallyport_directory.numbered_kind(subject), split_part(subject, ':', 2), relation
    );
    get diagnostics given = row_count;
    if given > 0 then
      perform pg_notify('sallyport_changes', '{"kind":"everything"}');
    end if;
  end loop;
end
$$;

-- Writes of the gateway to a numbered view, passed on to the view with the backend's keys. It writes with its owner's
-- rights, so only its owner may put it on views. The gateway may write what its role may write to this view.
create function sallyport_directory.write_numbered() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
declare
  keyed constant text := format('sallyport_directory.%I', 'external_' || tg_table_name);
  -- Each as kind:column.
  keys constant text[] := tg_argv[0];
  written jsonb;
  columns text[];
  row jsonb;
begin
  if tg_op = 'DELETE' then
    written := to_jsonb(old);
  else
    written := to_jsonb(new);
  end if;
  select array_agg(key) into columns from jsonb_each(written)
    where key not in ('id', 'external_id') and case tg_op
      -- A column that was not given has the default of the backend's table.
      when 'INSERT' then value <> 'null'
      when 'UPDATE' then value <> to_jsonb(old) -> key
      else false
    end;
  if tg_op = 'UPDATE' and columns is null then
    return new;
  end if;
  select written || coalesce(jsonb_object_agg(split_part(key, ':', 2), x.external_id), '{}') into written
    from unnest(keys) as key
    left join sallyport_directory.external_ids x
      on x.kind = split_part(key, ':', 1) and x.id = (written ->> split_part(key, ':', 2))::integer;
  if exists (select from unnest(columns) as c where written -> c = 'null' and to_jsonb(new) -> c <> 'null') then
    raise exception 'a record of % names a number that was never given', keyed using errcode = 'foreign_key_violation';
  end if;
  if tg_op = 'INSERT' then
    execute format(
      'insert into %1$s as v (%2$s) select %2$s from jsonb_populate_record(null::%1$s, $1) returning to_jsonb(v)',
      keyed, (select string_agg(quote_ident(c), ', ') from unnest(columns) as c)
    ) into row using written;
    if row is null then
      return null;
    end if;
    select row || coalesce(jsonb_object_agg(split_part(key, ':', 2), x.id), '{}') into row
      from unnest(keys) as key
      left join sallyport_directory.external_ids x
        on x.kind = split_part(key, ':', 1) and x.external_id = row ->> split_part(key, ':', 2);
    if row ->> 'id' is null then
      raise exception 'a new record of % has no number', keyed
        using hint = 'Watch the table behind it: call sallyport_directory.watch(…).';
    end if;
    return jsonb_populate_record(new, row);
  elsif tg_op = 'UPDATE' then
    execute format(
      'update %1$s as v set %2$s from jsonb_populate_record(null::%1$s, $1) as r where v.id = r.id returning to_jsonb(v)',
      keyed, (select string_agg(format('%1$I = r.%1$I', c), ', ') from unnest(columns) as c)
    ) into row using written;
    return case when row is null then null else new end;
  end if;
  execute format('delete from %1$s as v using jsonb_populate_record(null::%1$s, $1) as r where v.id = r.id
    returning to_jsonb(v)', keyed) into row using written;
  return case when row is null then null else old end;
end
$$;

revoke execute on function sallyport_directory.write_numbered() from public;

-- Puts aside each view whose keys are no integers, as external_<name>, and creates one of the same name over it that has
-- numbers instead. May be called again, after views were created anew.
create procedure sallyport_directory.number_views() language plpgsql set search_path = pg_catalog as $$
declare
  kinds text[];
  kind text;
  watched record;
  name text;
  keyed text;
  keys text[];
  grants text[];
  statement text;
begin
  select array_agg(k) into kinds
    from unnest('{user,organization,role_assignment,agent,cluster}'::text[]) as k where sallyport_directory.is_numbered(k);
  -- A table that was watched before its view had such keys.
  for watched in
    select t.tgrelid::regclass as relation, array_agg(substr(t.tgname, 11)) as events, p.subjects, p.ignored
    from pg_trigger t
    join pg_class c on c.oid = t.tgrelid and c.relnamespace <> 'sallyport_directory'::regnamespace
    cross join lateral (
      select split_part(args, '\000', 1)::text[] as subjects, split_part(args, '\000', 2)::text[] as ignored
      from encode(t.tgargs, 'escape') as args
    ) p
    where t.tgfoid in ('sallyport_directory.announce_changes'::regproc, 'sallyport_directory.announce_numbered'::regproc)
      and t.tgname <> 'sallyport_truncate' and cardinality(p.subjects) > 0
    group by t.tgrelid, p.subjects, p.ignored
  loop
    call sallyport_directory.watch(watched.relation, watched.subjects, watched.ignored, watched.events);
  end loop;
  foreach kind in array coalesce(kinds, '{}') loop
    if not exists (
      select from pg_trigger
      where tgfoid = 'sallyport_directory.announce_numbered'::regproc
        and encode(tgargs, 'escape') ~ ('[{,"]' || kind || ':[^,}]*:external')
    ) then
      raise exception 'no table numbers the ids of view sallyport_directory.%s', kind
        using hint = format('Call sallyport_directory.watch(''…'', ''{%s:id}'') for the table that has them.', kind);
    end if;
  end loop;
  for name in
    select relname from pg_class
    where relnamespace = 'sallyport_directory'::regnamespace and relkind = 'v' and (
      relname in ('users', 'role_assignments', 'organizations', 'auth_access_tokens', 'agents', 'clusters')
      or starts_with(relname, 'resources_')
    )
  loop
    keyed := format('sallyport_directory.%I', 'external_' || name);
    select array_agg(k.kind || ':' || k.attname || ':' || k.is_optional) into keys
    from (
      select a.attname, a.attname in ('current_organization_id', 'owner_id')
          or name = 'role_assignments' and a.attname = 'organization_id' as is_optional, case
        when a.attname = 'id' and not starts_with(name, 'resources_') then sallyport_directory.numbered_kind(rtrim(name, 's'))
        when a.attname in ('organization_id', 'current_organization_id') then 'organization'
        when a.attname in ('user_id', 'tokenable_id', 'owner_id') then 'user'
      end as kind
      from pg_attribute a
      where a.attrelid = sallyport_directory.keyed_view(name) and a.attnum > 0 and not a.attisdropped
    ) k
    where k.kind = any (kinds);
    continue when keys is null and sallyport_directory.keyed_view(name) = format('sallyport_directory.%I', name)::regclass;
    select array_agg(text) into grants from (
      select format('grant %s on sallyport_directory.%I to %s', g.privilege_type, name, g.role) as text
      from pg_class c cross join lateral (
        select acl.privilege_type, case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end as role
        from aclexplode(c.relacl) acl where acl.grantee <> c.relowner
      ) g
      where c.oid = format('sallyport_directory.%I', name)::regclass
      union all
      select format('grant %s (%I) on sallyport_directory.%I to %s', acl.privilege_type, a.attname, name,
        case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end)
      from pg_attribute a, aclexplode(a.attacl) acl
      where a.attrelid = format('sallyport_directory.%I', name)::regclass
    ) granted;
    if sallyport_directory.keyed_view(name) = format('sallyport_directory.%I', name)::regclass then
      execute format('drop view if exists %s', keyed);
      execute format('alter view sallyport_directory.%I rename to %I', name, 'external_' || name);
    else
      execute format('drop view sallyport_directory.%I', name);
    end if;
    select format(
      'create view sallyport_directory.%I as select %s from %s v %s', name,
      string_agg(case when k.kind is null then format('v.%I', a.attname) else format('x%s.id as %I', a.attnum, a.attname) end
        || case when a.attname = 'id' and k.kind in ('user', 'organization') and not exists (
            select from pg_attribute where attrelid = keyed::regclass and attname = 'external_id'
          ) then ', v.id::text as external_id' else '' end,
        ', ' order by a.attnum),
      keyed,
      -- Equal by both types, so that an index serves from either side. An old key of another type is never cast.
      string_agg(format(
        '%s join sallyport_directory.external_ids x%s on x%2$s.kind = %3$L and x%2$s.external_id = v.%4$I::text%5$s',
        case when k.is_optional then 'left' else '' end, a.attnum, k.kind, a.attname,
        case
          when a.atttypid = 'uuid'::regtype then format(
            ' and v.%I = case when x%s.external_id ~ ''^[0-9a-f-]{36}$'' then x%2$s.external_id::uuid end', a.attname, a.attnum)
          when a.atttypid in ('int2'::regtype, 'int4'::regtype, 'int8'::regtype) then format(
            ' and v.%I = case when x%s.external_id ~ ''^-?[0-9]{1,19}$'' and x%2$s.external_id::numeric
              between -9223372036854775808 and 9223372036854775807 then x%2$s.external_id::bigint end', a.attname, a.attnum)
          else ''
        end
      ), ' ' order by a.attnum) filter (where k.kind is not null)
    ) into statement
    from pg_attribute a
    left join lateral (
      select split_part(key, ':', 1) as kind, split_part(key, ':', 3)::boolean as is_optional
      from unnest(keys) as key where split_part(key, ':', 2) = a.attname
    ) k on true
    where a.attrelid = keyed::regclass and a.attnum > 0 and not a.attisdropped;
    execute statement;
    if keys is not null and name in ('users', 'auth_access_tokens', 'clusters') then
      execute format(
        'create trigger sallyport_write instead of insert or update or delete on sallyport_directory.%I for each row
         execute function sallyport_directory.write_numbered(%L)', name, keys
      );
    end if;
    foreach statement in array coalesce(grants, '{}') loop
      execute statement;
    end loop;
  end loop;
  perform pg_notify('sallyport_changes', '{"kind":"everything"}');
end
$$;

-- A number is new when it is given, so no cache knows it.
call sallyport_directory.watch('sallyport_directory.external_ids', '{}', '{}', '{update,delete}');
