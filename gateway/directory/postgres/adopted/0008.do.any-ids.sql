-- A trigger that fails would fail the backend's own statement. An id may have become a uuid or a larger integer since the
-- table was watched, and a column may be gone: then "everything" stands for what cannot be named.
create or replace function sallyport_directory.announce_changes() returns trigger language plpgsql set search_path = pg_catalog as $$
declare
  subjects text[] := tg_argv[0];
  ignored text[] := tg_argv[1];
  -- An update has two sides of each row.
  most constant integer := case tg_op when 'UPDATE' then 20000 else 10000 end;
  few constant integer := case tg_op when 'UPDATE' then 200 else 100 end;
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
    null;
  elsif tg_op = 'INSERT' then
    select array_agg(row) into changed from (select to_jsonb(a) as row from after_rows a limit most + 1) rows;
  elsif tg_op = 'DELETE' then
    select array_agg(row) into changed from (select to_jsonb(b) as row from before_rows b limit most + 1) rows;
  elsif tg_op = 'UPDATE' then
    -- Both sides of every row that now reads otherwise: it may have gone from one owner to another. Joined, since
    -- "except all" costs several times the update itself.
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
  if tg_op = 'TRUNCATE' or cardinality(changed) > most or exists (
    select from unnest(changed) as row, unnest(subjects) as subject
    where not row ? split_part(subject, ':', 2) or row ->> split_part(subject, ':', 2) !~ '^-?[0-9]{1,18}$'
  ) then
    perform pg_notify('sallyport_changes', '{"kind":"everything"}');
    return null;
  end if;
  for payload in
    select case count(*)
        when 1 then json_build_object('kind', kind, 'id', min(id))
        else json_build_object('kind', kind, 'ids', json_agg(id))
      end::text
    from (
      -- A message holds less than 8,000 bytes.
      select kind, id, row_number() over (partition by kind order by id) / case when cardinality(changed) > few then 300 else 1 end
        as part
      from (
        select distinct split_part(subject, ':', 1) as kind, (row ->> split_part(subject, ':', 2))::bigint as id
        from unnest(changed) as row, unnest(subjects) as subject
        where row ->> split_part(subject, ':', 2) is not null
      ) named
    ) numbered
    group by kind, part
  loop
    perform pg_notify('sallyport_changes', payload);
  end loop;
  return null;
end
$$;
