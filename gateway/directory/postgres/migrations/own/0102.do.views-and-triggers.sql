-- Views, as over the backend's tables in an adopted database, so that the gateway has one set of statements. Simple ones:
-- PostgreSQL reads and writes straight through them. To the gateway a disabled or archived row does not exist; the views
-- named "managed" show all rows to the commands of operators.
-- The schema isn't named "sallyport": a role of that name would find it before "public" in its search path.
do $$
declare
  written record;
begin
  for written in
    select * from (values
      ('users', 'users where disabled_at is null', 'id, email, username, first_name, last_name, full_name, user_type,
        current_organization_id, updated_at, email_verified'),
      ('user_identities', 'user_identities', 'user_id, issuer, subject'),
      ('role_assignments', 'role_assignments', 'id, user_id, organization_id, role'),
      ('organizations', 'organizations where archived_at is null', 'id, name, slug, description, logo_url, website_url,
        contact_email, location, company_size, domain, account_type, is_verified, created_at, updated_at'),
      ('auth_access_tokens', 'auth_access_tokens', 'id, tokenable_id, type, name, hash, abilities, created_at, updated_at,
        last_used_at, expires_at'),
      ('token_parents', 'token_parents', 'token_id, parent_id'),
      ('token_organizations', 'token_organizations', 'token_id, organization_id'),
      ('agents', 'agents where archived_at is null', 'id, organization_id, is_public'),
      ('clusters', 'clusters', 'id, organization_id, slug, base_url, status, last_heartbeat_at'),
      ('issuer_keys', 'issuer_keys', 'issuer, keys, fetched_at'),
      ('policy_tables', 'policy_tables', 'directory, fingerprint, files, taken_at'),
      ('session_ends', 'session_ends', 'id, ordered_at, user_id, organization_id, token_id, route, request_id'),
      ('logouts', 'logouts', 'issuer, subject, session, at, expires_at, changed_in'),
      ('event_streams', 'event_streams', 'transmitter, asked_at, verified_at'),
      ('audit_events', 'audit_events', 'id, at, action, actor_id, credential, organization_id, subject_id, token_id,
        cluster_id, client_address, request_id, agent_id, role'),
      ('managed_users', 'users', 'id, email, username, first_name, last_name, full_name, user_type, email_verified,
        disabled_at, updated_at'),
      ('managed_organizations', 'organizations', 'id, name, slug, account_type, archived_at, created_at, updated_at'),
      ('managed_agents', 'agents', 'id, organization_id, name, is_public, archived_at'),
      ('managed_clusters', 'clusters', 'id, organization_id, name, slug, base_url, status, last_heartbeat_at')
    ) as views (name, relation, columns)
  loop
    execute format('create view sallyport_directory.%I with (security_invoker) as select %s from %s',
      written.name, written.columns, written.relation);
    -- Behind "security_invoker" the rights on the tables count, as they would without the views.
    execute format('grant select, insert, update, delete on sallyport_directory.%I to public', written.name);
  end loop;
end
$$;
grant usage on schema sallyport_directory to public;
revoke delete on sallyport_directory.event_streams from public;

-- Tells every replica of each change at its commit. Arguments: the subjects, each as kind:column, and the columns that do not
-- count. No value fails a statement: another program may have added a column of json, whose values jsonb may refuse.
create function sallyport_announce_changes() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  subjects text[] := tg_argv[0];
  ignored text[] := tg_argv[1];
  -- An update has two sides of each row.
  most constant integer := case tg_op when 'UPDATE' then 20000 else 10000 end;
  few constant integer := case tg_op when 'UPDATE' then 200 else 100 end;
  changed jsonb[];
  payload text;
begin
  -- A full queue would fail the commit. Gateways believe nothing for longer than a second from half of it on.
  if pg_notification_queue_usage() > 0.75 then
    return null;
  end if;
  if tg_op = 'INSERT' then
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
exception when others then
  raise warning 'sallyport: a change of table % could not be named (%)', tg_relid::regclass, sqlstate;
  perform pg_notify('sallyport_changes', '{"kind":"everything"}');
  return null;
end
$$;

-- Commits that notify wait for one another. So last uses of tokens and heartbeats, which decide nothing, tell of nothing.
do $$
declare
  statement text;
begin
  for statement in
    -- Transition tables allow one event a trigger.
    select format('create trigger sallyport_%1$s after %1$s on %2$I %3$s for each statement
      execute function sallyport_announce_changes(%4$L, %5$L)', event, relation,
      case event when 'insert' then 'referencing new table as after_rows'
        when 'update' then 'referencing old table as before_rows new table as after_rows'
        when 'delete' then 'referencing old table as before_rows' end,
      subjects, ignored)
    from (values
      ('users', '{user:id}', '{updated_at}', '{update,delete}'::text[]),
      ('user_identities', '{user:user_id}', '{}', '{insert,update,delete}'),
      ('role_assignments', '{user:user_id,members:organization_id}', '{}', '{insert,update,delete}'),
      ('organizations', '{organization:id}', '{}', '{insert,update,delete}'),
      ('auth_access_tokens', '{token:id}', '{last_used_at,updated_at}', '{update,delete}'),
      ('token_parents', '{token:token_id}', '{}', '{insert,update,delete}'),
      ('agents', '{agent:id}', '{}', '{insert,update,delete}'),
      ('clusters', '{cluster:id}', '{last_heartbeat_at}', '{insert,update,delete}'),
      ('session_ends', '{session-end:id}', '{}', '{insert}'),
      ('logouts', '{logout:id}', '{}', '{insert,update}')
    ) as rules (relation, subjects, ignored, events) cross join unnest(events || '{truncate}') as event
  loop
    execute statement;
  end loop;
end
$$;

-- A heartbeat only ever lengthens a cluster's life; one that is taken back shortens it.
create function sallyport_announce_cluster() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if pg_notification_queue_usage() <= 0.75 then
    perform pg_notify('sallyport_changes', json_build_object('kind', 'cluster', 'id', new.id)::text);
  end if;
  return null;
end
$$;
create trigger sallyport_heartbeat_taken_back after update of last_heartbeat_at on clusters for each row
when (old.last_heartbeat_at is not null and (new.last_heartbeat_at is null or new.last_heartbeat_at < old.last_heartbeat_at))
execute function sallyport_announce_cluster();

create function sallyport_doubt_email() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  new.email_verified := false;
  return new;
end
$$;
create trigger sallyport_doubt_email before update on users for each row when (old.email is distinct from new.email)
execute function sallyport_doubt_email();

-- Notes that an issuer has verified this address, if it is still the user's. Null where the gateway keeps no such note.
create function sallyport_directory.verify_email(user_id integer, address text) returns boolean language sql as $$
  with verified as (
    update sallyport_directory.users u set email_verified = true
    where u.id = user_id and not u.email_verified and lower(u.email collate "C") = lower(address collate "C")
    returning u.id
  )
  select exists (select from verified)
$$;

-- The login of a disabled user by another identity would make a second user of the same person. An address that was
-- never verified may be another person's, and stops no login.
create function sallyport_decline_disabled() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  is_disabled boolean;
begin
  execute format(
    'select exists (select from %I.%I u where lower(u.email collate "C") = lower($1 collate "C")
       and u.user_type = ''human'' and u.email_verified and u.disabled_at is not null)',
    tg_table_schema, tg_table_name
  ) into is_disabled using new.email;
  return case when is_disabled then null else new end;
end
$$;
create trigger sallyport_decline_disabled before insert on users for each row when (new.user_type = 'human')
execute function sallyport_decline_disabled();
