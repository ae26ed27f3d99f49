-- The tables of a backend in AdonisJS, mapped to what Sallyport asks (../adopt-a-database.md). `users` and
-- `auth_access_tokens` are those that @adonisjs/auth makes, with a platform's columns. Put your names for the others.
--
-- After "sallyport migrate --adopt", as a role that owns the backend's tables:
--
--     psql "$DATABASE_URL" --single-transaction -v ON_ERROR_STOP=1 -v gateway=sallyport -f adonis.sql
--
-- Run it again after a change: it replaces what it made before.

-- 1. The columns that are read. A column that you do not have is null: null::text as domain. A view without "security_invoker" reads
-- with its owner's rights, so that the gateway sees these columns and no others.

drop view if exists sallyport_directory.users, sallyport_directory.role_assignments,
  sallyport_directory.organizations, sallyport_directory.auth_access_tokens;

create view sallyport_directory.users as
  select id, email, username, null::text as first_name, null::text as last_name, full_name,
    user_type, current_organization_id, updated_at,
    -- Whether the address is known to be the user's: only then may a verified login of another issuer be linked to it.
    -- If you keep the time of it: email_verified_at is not null as email_verified
    false as email_verified
  from public.users
  -- A user whom you have locked out is not there, for OAuth and for API tokens.
  where deleted_at is null;

-- The role's slug is the name in policies/roles.yaml. One role a user and organization.
create view sallyport_directory.role_assignments as
  select m.id, m.user_id, m.organization_id, r.slug as role
  from public.user_roles m join public.roles r on r.id = m.role_id;

create view sallyport_directory.organizations as
  select id, name, slug, description, logo_url, website_url, contact_email, location, company_size, domain,
    account_type, is_verified, created_at, coalesce(updated_at, created_at) as updated_at
  from public.organizations;

-- Other types of token, and those of other models, are not the gateway's.
create view sallyport_directory.auth_access_tokens as
  select id, tokenable_id, type, name, hash, abilities, created_at, updated_at, last_used_at, expires_at
  from public.auth_access_tokens
  where type = 'auth_token'
  with local check option;

-- Leave both as "migrate --adopt" made them, and empty, if you have no such things.
drop view if exists sallyport_directory.agents, sallyport_directory.clusters;

create view sallyport_directory.agents as
  select id, organization_id, visibility = 'public' as is_public from public.agents;

create view sallyport_directory.clusters as
  select id, organization_id, slug, url as base_url, status, heartbeat_at as last_heartbeat_at
  from public.data_clusters;

-- 2. The columns that are written. PostgreSQL writes through views like these by itself, column by column. A new user
-- needs more than the gateway knows of: a password that fits no text, and times without a default.

create or replace function sallyport_directory.create_user() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into public.users (email, username, full_name, user_type, password, created_at, updated_at)
  -- No hash of anything: no password fits.
  values (new.email, new.username, new.full_name, new.user_type, '!', now(), now())
  returning id into new.id;
  return new;
end
$$;

create trigger sallyport_create_user instead of insert on sallyport_directory.users
  for each row execute function sallyport_directory.create_user();

-- The identities of a deleted user go with the user. (This changes Sallyport's table, not yours.) Leave it out if your keys
-- are uuids or large integers: identities then name users by numbers.
alter table sallyport_directory.user_identities
  drop constraint if exists user_identities_user,
  add constraint user_identities_user foreign key (user_id) references public.users (id) on delete cascade;

-- 3. The triggers on your tables tell of changes, so that no replica believes an old state. A pair of kind and column names
-- the record that a change concerns. Without any, a change tells of everything. Columns of the second list never count.

call sallyport_directory.watch('public.users', '{user:id}', '{password,updated_at}');
call sallyport_directory.watch('public.user_roles', '{role_assignment:id,user:user_id,members:organization_id}');
call sallyport_directory.watch('public.roles');
call sallyport_directory.watch('public.organizations', '{organization:id}');
call sallyport_directory.watch('public.auth_access_tokens', '{token:id}', '{last_used_at,updated_at}');
call sallyport_directory.watch('public.agents', '{agent:id}');
call sallyport_directory.watch('public.data_clusters', '{cluster:id}', '{heartbeat_at}');

-- Views with uuids or large integers as keys give numbers for them from here on (../adopt-a-database.md#uuids-and-large-integers).
call sallyport_directory.number_views();

-- 4. The gateway's role gets these rights, and no others in your database.

grant usage on schema sallyport_directory to :"gateway";
grant select on all tables in schema sallyport_directory to :"gateway";
grant insert on sallyport_directory.users, sallyport_directory.user_identities,
  sallyport_directory.auth_access_tokens, sallyport_directory.token_parents, sallyport_directory.token_organizations,
  sallyport_directory.session_ends, sallyport_directory.audit_events to :"gateway";
grant update (current_organization_id, updated_at) on sallyport_directory.users to :"gateway";
grant update (last_used_at), delete on sallyport_directory.auth_access_tokens to :"gateway";
grant update (status, last_heartbeat_at) on sallyport_directory.clusters to :"gateway";
grant insert, update on sallyport_directory.issuer_keys, sallyport_directory.policy_tables,
  sallyport_directory.event_streams to :"gateway";
grant insert, update, delete on sallyport_directory.logouts to :"gateway";
-- New tokens are numbered by your sequence.
grant usage on sequence public.auth_access_tokens_id_seq to :"gateway";

-- Running gateways hold what the views said before.
select pg_notify('sallyport_changes', '{"kind":"everything"}');
