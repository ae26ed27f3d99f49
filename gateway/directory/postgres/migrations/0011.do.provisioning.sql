-- The command line fills the directory. Rows that are out of use stay, and the views of the gateway leave them out: to
-- the gateway a disabled user or an archived organization does not exist.

alter table users add column disabled_at timestamptz;
alter table organizations add column archived_at timestamptz;
alter table agents add column archived_at timestamptz;

create or replace view sallyport_directory.users with (security_invoker) as
  select id, email, username, first_name, last_name, full_name, user_type, current_organization_id, updated_at,
    email_verified
  from users where disabled_at is null;

create or replace view sallyport_directory.organizations with (security_invoker) as
  select id, name, slug, description, logo_url, website_url, contact_email, location, company_size, domain,
    account_type, is_verified, created_at, updated_at
  from organizations where archived_at is null;

create or replace view sallyport_directory.agents with (security_invoker) as
  select id, organization_id, is_public from agents where archived_at is null;

-- All rows, for operators.
create view sallyport_directory.managed_users with (security_invoker) as
  select id, email, username, first_name, last_name, full_name, user_type, email_verified, disabled_at, updated_at
  from users;

create view sallyport_directory.managed_organizations with (security_invoker) as
  select id, name, slug, account_type, archived_at, created_at, updated_at from organizations;

create view sallyport_directory.managed_agents with (security_invoker) as
  select id, organization_id, name, is_public, archived_at from agents;

create view sallyport_directory.managed_clusters with (security_invoker) as
  select id, organization_id, name, slug, base_url, status, last_heartbeat_at from clusters;

grant select, insert, update, delete on
  sallyport_directory.managed_users, sallyport_directory.managed_organizations, sallyport_directory.managed_agents,
  sallyport_directory.managed_clusters
to public;

-- The login of a disabled user by another identity would make a second user of the same person. An address that was
-- never verified may be another person's, and stops no login.
create function sallyport_decline_disabled() returns trigger language plpgsql set search_path = pg_catalog as $$
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

create trigger sallyport_decline_disabled before insert on users for each row
when (new.user_type = 'human')
execute function sallyport_decline_disabled();

-- The names that another system has for rows, so that a command that is run twice creates once.
create table sallyport_directory.external_references (
  kind text not null check (kind in ('organization', 'user', 'agent', 'cluster')),
  external_id text not null,
  organization_id integer unique references organizations (id) on delete cascade,
  user_id integer unique references users (id) on delete cascade,
  agent_id integer unique references agents (id) on delete cascade,
  cluster_id integer unique references clusters (id) on delete cascade,
  created_at timestamptz not null default now(),
  primary key (kind, external_id),
  check (num_nonnulls(organization_id, user_id, agent_id, cluster_id) = 1),
  check (case kind
    when 'organization' then organization_id
    when 'user' then user_id
    when 'agent' then agent_id
    else cluster_id
  end is not null)
);

-- A role that may create organizations may name them, without another grant.
do $$
declare
  grantee text;
begin
  for grantee in
    select distinct case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end
    from pg_class c, aclexplode(c.relacl) acl
    where c.oid = 'organizations'::regclass and acl.privilege_type = 'INSERT'
  loop
    execute format('grant select, insert on sallyport_directory.external_references to %s', grantee);
  end loop;
end
$$;

alter table audit_events
  drop constraint audit_events_action_check,
  add constraint audit_events_action_check check (action in
    ('token.minted', 'token.revoked', 'organization.switched', 'cluster.suspended', 'cluster.resumed',
     'identity.linked', 'organization.created', 'organization.archived', 'member.added', 'member.changed',
     'member.removed', 'user.created', 'user.disabled', 'user.enabled', 'agent.created', 'agent.archived',
     'cluster.created')),
  add column agent_id integer,
  -- The role that a member was given, or lost.
  add column role text;

create or replace view sallyport_directory.audit_events with (security_invoker) as
  select id, at, action, actor_id, credential, organization_id, subject_id, token_id, cluster_id, client_address,
    request_id, agent_id, role
  from audit_events;
