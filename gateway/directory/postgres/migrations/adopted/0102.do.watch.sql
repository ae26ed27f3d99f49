-- Functions that watch a backend's tables and number its keys: its views call them (docs/guides/adopt-a-database.md).

-- No rows, until the backend says otherwise: "create or replace view" with the same columns.
create view agents as
  select null::integer as id, null::integer as organization_id, null::boolean as is_public where false;
create view clusters as
  select null::integer as id, null::integer as organization_id, null::text as slug, null::text as base_url,
    null::text as status, null::timestamptz as last_heartbeat_at where false;

-- The column email_verified of the backend's view of users says whether an address was verified. The gateway keeps no note
-- of it; a backend that wants one replaces this function.
create function verify_email(user_id integer, address text) returns boolean language sql as $$
  select null::boolean
$$;

-- The kind of number behind a subject of "watch", or null. The functions of tables call it for each record that a statement
-- names, so PostgreSQL must inline it, which a search path of its own forbids. The schema stands before each name instead.
create function numbered_kind(subject text) returns text language sql immutable as $$
  select case
    when pg_catalog.split_part(subject, ':', 1) operator(pg_catalog.=) 'members'
      or pg_catalog.starts_with(subject, 'resource/') then 'organization'
    when pg_catalog.split_part(subject, ':', 1)
      operator(pg_catalog.=) any ('{user,organization,role_assignment,agent,cluster}'::pg_catalog.text[])
      then pg_catalog.split_part(subject, ':', 1)
  end
$$;

-- The view with the backend's own keys: the one that "number_views" put aside, or the view itself.
create function keyed_view(name text) returns regclass language sql stable set search_path = pg_catalog, pg_temp as $$
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

create function is_numbered(kind text) returns boolean language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from pg_attribute
    where attrelid = sallyport_directory.keyed_view(kind || 's') and attname = 'id'
      and atttypid not in ('int2'::regtype, 'int4'::regtype)
  )
$$;

-- The body of a table's trigger function, which reads the columns that count and no others. One function for all tables
-- would read whole rows as JSON, and a value that jsonb refuses would fail the backend's own statement.
-- Columns are named as "kind:column[:external]", as "watch" passes them on.
create function compose_announcer(relation regclass, subjects text[], ignored text[]) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $compose$
declare
  -- Keys of the backend, which have numbers.
  external text[];
  -- Integers are named twice as fast as texts. A column that is another type by now fails, and tells of everything.
  key_type text;
  -- The primary key alone pairs the two sides of a row. By an id that is not unique, each side would meet all others.
  keys text[];
  paired text;
  differs text;
  values_of_row text;
  told text;
  body text;
begin
  if cardinality(subjects) = 0 then
    return $body$
declare
  has_rows boolean := true;
begin
  if pg_notification_queue_usage() > 0.75 then
    return null;
  elsif tg_op = 'DELETE' then
    has_rows := exists (select from before_rows);
  elsif tg_op <> 'TRUNCATE' then
    -- A statement that met no row has changed nothing.
    has_rows := exists (select from after_rows);
  end if;
  if has_rows then
    perform pg_notify('sallyport_changes', '{"kind":"everything"}');
  end if;
  return null;
end
$body$;
  end if;
  select coalesce(array_agg(distinct split_part(s, ':', 1)) filter (where split_part(s, ':', 3) <> ''), '{}') into external
    from unnest(subjects) as s;
  key_type := case when external = '{}' then 'bigint' else 'text' end;
  select array_agg(a.attname order by a.attnum),
      string_agg(format(
        case when t.oid in ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'uuid'::regtype, 'text'::regtype)
          then 'b.%1$I = a.%1$I' else 'b.%1$I::text = a.%1$I::text' end, a.attname), ' and ' order by a.attnum)
    into keys, paired
    from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
    join pg_type t on t.oid = a.atttypid
    where i.indrelid = relation and i.indisprimary;
  -- No operator of a type says what is equal: "citext" has none for case, and "json" has none at all. The image of a value
  -- has. In a large statement a large value counts as changed unread, because reading it takes longer than the statement.
  select string_agg(format(
      case
        when a.atttypid in ('bool'::regtype, 'int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'uuid'::regtype,
            'date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype) then '
          or b.%1$I is distinct from a.%1$I'
        when t.typlen = -1 then '
          or case
            when is_bulk and (pg_column_size(b.%1$I) > 2000 or pg_column_size(a.%1$I) > 2000
              or pg_column_compression(b.%1$I) is not null) then true
            else ' || case
              when a.atttypid in ('text'::regtype, 'varchar'::regtype) then 'b.%1$I collate "C" is distinct from a.%1$I'
              else 'record_image_ne(row(b.%1$I), row(a.%1$I))' end || '
          end'
        else '
          or record_image_ne(row(b.%1$I), row(a.%1$I))'
      end, a.attname), '' order by t.typlen = -1, a.attnum)
    into differs
    from pg_attribute a join pg_type t on t.oid = a.atttypid
    where a.attrelid = relation and a.attnum > 0 and not a.attisdropped and a.attname <> all (ignored)
      -- A virtual column is stored nowhere: the columns that it reads count.
      and a.attgenerated <> 'v';
  -- One subject may be named by both sides of an update.
  select string_agg(format('(%L, r.s%s)', split_part(s, ':', 1), at), ', ') into values_of_row
    from unnest(subjects) with ordinality as listed (s, at);
  told := $told$
      select array_agg(told.kind), array_agg(told.key), max(told.total) into kinds, keys, total
      from (
        select distinct v.kind, v.key, r.total
        from (select count(*) over () as total, r.* from (%s limit 10001) r) r
        cross join lateral (values %s) v (kind, key)
        where v.key is not null
      ) told;$told$;
  -- A table may have columns of the variables' names. All of its columns stand behind an alias.
  select format($body$
#variable_conflict use_variable
declare
  kinds text[];
  keys %8$s[];
  total bigint;
  payload text;
  is_bulk boolean;
  is_known boolean;
begin%1$s
  -- A full queue would fail the commit. Gateways believe nothing for longer than a second from half of it on.
  if pg_notification_queue_usage() > 0.75 then
    return null;
  end if;
  begin
    if tg_op = 'INSERT' then%2$s
    elsif tg_op = 'DELETE' then%3$s
    elsif tg_op = 'UPDATE' then
      is_bulk := exists (select from after_rows offset 100);
      -- A column that came later is compared by nothing here, so that each row counts.
      is_known := exists (select from pg_class where oid = tg_relid and relnatts = %4$s);%5$s
    end if;
    -- A number beyond 18 digits may be more than JSON holds.
    if tg_op = 'TRUNCATE' or total > 10000 or exists (
      select from unnest(kinds, keys) as named (kind, key) where %6$s
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
        select kind, id, row_number() over (partition by kind) / case when total > 100 then 300 else 1 end as part
        from (%7$s) named
      ) numbered
      group by kind, part
    loop
      perform pg_notify('sallyport_changes', payload);
    end loop;
  exception when others then
    raise warning 'sallyport: a change of table %% could not be named (%%)', tg_relid::regclass, sqlstate;
    perform pg_notify('sallyport_changes', '{"kind":"everything"}');
  end;
  return null;
end
$body$,
    case when external <> '{}' then format($number$
  -- In order, so that two statements with the same new keys do not wait for each other in a circle.
  begin
    if tg_op in ('INSERT', 'UPDATE') then
      insert into sallyport_directory.external_ids (kind, external_id)
      select distinct v.kind, v.key
      from after_rows r cross join lateral (values %s) v (kind, key)
      where v.key is not null and not exists (
        select from sallyport_directory.external_ids x where x.kind = v.kind and x.external_id = v.key
      )
      order by 1, 2
      on conflict do nothing;
    end if;
  exception when others then
    raise warning 'sallyport: a change of table %% could not be numbered (%%)', tg_relid::regclass, sqlstate;
    perform pg_notify('sallyport_changes', '{"kind":"everything"}');
    return null;
  end;$number$,
      (select string_agg(format('(%L, r.%I::text)', sallyport_directory.numbered_kind(s), split_part(s, ':', 2)), ', ')
        from unnest(subjects) as s where split_part(s, ':', 3) <> '')) else '' end,
    format(told, 'select ' || s.of_row || ' from after_rows r', values_of_row),
    format(told, 'select ' || s.of_row || ' from before_rows r', values_of_row),
    c.relnatts,
    case when paired is null
      then format(told, format('(select %1$s from before_rows r union all select %1$s from after_rows r)', s.of_row), values_of_row)
      else format(told, format('select %1$s from before_rows b full join after_rows a on %2$s
          where not is_known or b.%3$I is null or a.%3$I is null%4$s', s.of_both, paired, keys[1], differs),
        values_of_row || s.more_values) end,
    case when external = '{}' then 'key not between -999999999999999999 and 999999999999999999'
      else format('kind <> all (%L) and key !~ ''^-?[0-9]{1,18}$''', external) end,
    case when external = '{}' then 'select kind, key as id from unnest(kinds, keys) as told (kind, key)'
      else format($named$
          select n.kind, case when n.kind = any (%1$L) then x.id::bigint else n.key::bigint end as id
          from unnest(kinds, keys) as n (kind, key)
          left join sallyport_directory.external_ids x
            on n.kind = any (%1$L) and x.kind = sallyport_directory.numbered_kind(n.kind) and x.external_id = n.key
          -- No cache holds a role by its own number.
          where n.kind <> 'role_assignment'$named$, external) end,
    key_type
  ) into body
    from pg_class c
    cross join lateral (
      select string_agg(format('r.%I::%s as s%s', split_part(s, ':', 2), key_type, at), ', ') as of_row,
        string_agg(format('b.%1$I::%2$s as s%3$s, a.%1$I::%2$s as t%3$s', split_part(s, ':', 2), key_type, at), ', ') as of_both,
        string_agg(format(', (%L, r.t%s)', split_part(s, ':', 1), at), '') as more_values
      from unnest(subjects) with ordinality as listed (s, at)
    ) s
    where c.oid = relation;
  return body;
end
$compose$;

-- The functions that "watch" made.
create function announcers() returns setof oid language sql stable set search_path = pg_catalog, pg_temp as $$
  select oid from pg_proc where pronamespace = 'sallyport_directory'::regnamespace and starts_with(proname, 'changes_of_')
$$;

-- Has a table tell of its changes, and numbers its keys where the views have others than integers. May be called again.
create procedure watch(relation regclass, subjects text[] default '{}', ignored text[] default '{}',
  events text[] default '{insert,update,delete}') language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  event text;
  missing text;
  subject text;
  given bigint;
  unused text;
  function_name text;
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
    -- Triggers that an earlier call asked for and this one does not.
    execute format('drop trigger if exists sallyport_%s on %s', event, relation);
  end loop;
  -- Functions of earlier calls, and of tables that are gone.
  for unused in
    select proname from pg_proc p
    where pronamespace = 'sallyport_directory'::regnamespace and starts_with(proname, 'changes_of_')
      and pg_has_role(proowner, 'usage') and not exists (select from pg_trigger where tgfoid = p.oid)
  loop
    execute format('drop function sallyport_directory.%I()', unused);
  end loop;
  -- Tables of two schemas may have one name, and a table may take the name of another.
  select n.name into function_name
    from pg_class c
    cross join generate_series(1, 1000) as at
    cross join lateral (select left('changes_of_' || c.relname, 50) || case at when 1 then '' else '_' || at end as name) n
    where c.oid = relation and not exists (
      select from pg_proc where pronamespace = 'sallyport_directory'::regnamespace and proname = n.name
    )
    order by at limit 1;
  -- A function that numbers writes with its owner's rights, so that only its owner may put it on tables.
  execute format(
    'create function sallyport_directory.%I() returns trigger language plpgsql %s set search_path = pg_catalog, pg_temp as %L',
    function_name,
    case when exists (select from unnest(subjects) as s where split_part(s, ':', 3) <> '') then 'security definer' else '' end,
    sallyport_directory.compose_announcer(relation, subjects, ignored)
  );
  execute format('revoke execute on function sallyport_directory.%I() from public', function_name);
  foreach event in array array['insert', 'update', 'delete', 'truncate'] loop
    continue when event <> 'truncate' and event <> all (events);
    -- Transition tables allow one event a trigger. The arguments are for a later call: the function has them in its text.
    execute format(
      'create trigger sallyport_%s after %s on %s %s for each statement execute function sallyport_directory.%I(%L, %L)',
      event, event, relation,
      case event
        when 'insert' then 'referencing new table as after_rows'
        when 'delete' then 'referencing old table as before_rows'
        when 'update' then 'referencing old table as before_rows new table as after_rows'
        else ''
      end,
      function_name, subjects, ignored
    );
  end loop;
  -- The triggers' lock keeps writers away until the commit, so that no row is missed between.
  foreach subject in array subjects loop
    continue when split_part(subject, ':', 3) = '';
    execute format(
      'insert into sallyport_directory.external_ids (kind, external_id)
       select distinct %1$L, k from (select %2$I::text as k from %3$s where %2$I is not null) keys
       where not exists (select from sallyport_directory.external_ids x where x.kind = %1$L and x.external_id = k)
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
create function write_numbered() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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
revoke execute on function write_numbered() from public;

-- Puts aside each view whose keys are not integers, as external_<name>, and creates one of the same name over it that has
-- numbers instead. May be called again, after views were created anew.
create procedure number_views() language plpgsql set search_path = pg_catalog, pg_temp as $$
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
    where t.tgfoid in (select * from sallyport_directory.announcers())
      and t.tgname <> 'sallyport_truncate' and cardinality(p.subjects) > 0
    group by t.tgrelid, p.subjects, p.ignored
  loop
    call sallyport_directory.watch(watched.relation, watched.subjects, watched.ignored, watched.events);
  end loop;
  foreach kind in array coalesce(kinds, '{}') loop
    if not exists (
      select from pg_trigger
      where tgfoid in (select * from sallyport_directory.announcers())
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

-- A function in a schema of the gateway needs no prefix.
alter function sallyport_note_removed_identities() rename to note_removed_identities;

call watch('user_identities', '{user:user_id}');
call watch('token_parents', '{token:token_id}');
call watch('session_ends', '{session-end:id}', '{}', '{insert}');
call watch('logouts', '{logout:id}', '{}', '{insert,update}');
-- A number is new when it is given, so no cache knows it.
call watch('external_ids', '{}', '{}', '{update,delete}');
