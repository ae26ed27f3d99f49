-- Tells every replica what has changed, whoever changed it: one NOTIFY for each row, at the commit. One statement
-- that changes more than a hundred rows says "everything" instead, so that no bulk job can fill the queue.
--
-- What is changed all the time and decides nothing (last use of a token, a cluster's next heartbeat) tells nobody:
-- commits that notify wait for one another.

-- Arguments: the subjects, each as kind:column, and the columns that do not count.
create function sallyport_announce_changes() returns trigger language plpgsql set search_path = pg_catalog as $$
declare
  subjects text[] := tg_argv[0];
  ignored text[] := tg_argv[1];
  most constant integer := 100;
  changed jsonb[];
  payload text;
begin
  if tg_op = 'INSERT' then
    select array_agg(row) into changed from (select to_jsonb(a) as row from after_rows a limit most + 1) rows;
  elsif tg_op = 'DELETE' then
    select array_agg(row) into changed from (select to_jsonb(b) as row from before_rows b limit most + 1) rows;
  elsif tg_op = 'UPDATE' then
    -- Both sides of every row that now reads otherwise: it may have gone from one owner to another. Joined, since
    -- "except all" costs several times the update itself.
    select array_agg(row) into changed from (
      select side as row
      from (select id, to_jsonb(b) - ignored as was from before_rows b) b
      full join (select id, to_jsonb(a) - ignored as reads from after_rows a) a using (id)
      cross join lateral (values (was), (reads)) as sides (side)
      where was is distinct from reads and side is not null
      limit 2 * most + 1
    ) rows;
    if cardinality(changed) > 2 * most then
      changed := null;
      perform pg_notify('sallyport_changes', '{"kind":"everything"}');
    end if;
  else
    perform pg_notify('sallyport_changes', '{"kind":"everything"}');
  end if;
  if tg_op in ('INSERT', 'DELETE') and cardinality(changed) > most then
    changed := null;
    perform pg_notify('sallyport_changes', '{"kind":"everything"}');
  end if;
  for payload in
    select distinct json_build_object(
      'kind', split_part(subject, ':', 1), 'id', (row ->> split_part(subject, ':', 2))::integer
    )::text
    from unnest(changed) as row, unnest(subjects) as subject
    where row ->> split_part(subject, ':', 2) is not null
  loop
    perform pg_notify('sallyport_changes', payload);
  end loop;
  return null;
end
$$;

-- Transition tables allow one event a trigger.
do $$
declare
  rule record;
  event text;
  tables text;
begin
  for rule in
    select * from (values
      ('users', '{user:id}', '{updated_at}', '{update,delete}'::text[]),
      ('user_identities', '{user:user_id}', '{}', '{insert,update,delete}'),
      ('role_assignments', '{user:user_id,members:organization_id}', '{}', '{insert,update,delete}'),
      ('organizations', '{organization:id}', '{}', '{insert,update,delete}'),
      ('auth_access_tokens', '{token:id}', '{last_used_at,updated_at}', '{update,delete}'),
      ('agents', '{agent:id}', '{}', '{insert,update,delete}'),
      ('clusters', '{cluster:id}', '{last_heartbeat_at}', '{insert,update,delete}')
    ) as rules (relation, subjects, ignored, events)
  loop
    foreach event in array rule.events loop
      tables := case event
        when 'insert' then 'new table as after_rows'
        when 'delete' then 'old table as before_rows'
        else 'old table as before_rows new table as after_rows'
      end;
      execute format(
        'create trigger sallyport_%s after %s on %I referencing %s for each statement
         execute function sallyport_announce_changes(%L, %L)',
        event, event, rule.relation, tables, rule.subjects, rule.ignored
      );
    end loop;
    execute format(
      'create trigger sallyport_truncate after truncate on %I for each statement
       execute function sallyport_announce_changes(%L, %L)',
      rule.relation, rule.subjects, rule.ignored
    );
  end loop;
end
$$;

-- A heartbeat only ever lengthens a cluster's life; one that is taken back shortens it.
create function sallyport_announce_cluster() returns trigger language plpgsql set search_path = pg_catalog as $$
begin
  perform pg_notify('sallyport_changes', json_build_object('kind', 'cluster', 'id', new.id)::text);
  return null;
end
$$;

create trigger sallyport_heartbeat_taken_back after update of last_heartbeat_at on clusters for each row
when (old.last_heartbeat_at is not null
  and (new.last_heartbeat_at is null or new.last_heartbeat_at < old.last_heartbeat_at))
execute function sallyport_announce_cluster();
