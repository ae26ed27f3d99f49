-- What the gateway asks and changes, by fixed names: views over our own tables here, over the backend's tables in an
-- adopted database. Simple ones, so that PostgreSQL reads and writes straight through them.
--
-- Not named "sallyport": a role of that name would find the schema before "public" in its search path.

do $$
begin
  -- "if not exists" would ask for the right to create schemas even where there is nothing to create.
  if to_regnamespace('sallyport_directory') is null then
    create schema sallyport_directory;
  end if;
end
$$;

create view sallyport_directory.users with (security_invoker) as
  select id, email, username, first_name, last_name, full_name, user_type, current_organization_id, updated_at
  from users;

create view sallyport_directory.user_identities with (security_invoker) as
  select user_id, issuer, subject from user_identities;

create view sallyport_directory.role_assignments with (security_invoker) as
  select id, user_id, organization_id, role from role_assignments;

create view sallyport_directory.organizations with (security_invoker) as
  select id, name, slug, description, logo_url, website_url, contact_email, location, company_size, domain,
    account_type, is_verified, created_at, updated_at
  from organizations;

create view sallyport_directory.auth_access_tokens with (security_invoker) as
  select id, tokenable_id, type, name, hash, abilities, created_at, updated_at, last_used_at, expires_at
  from auth_access_tokens;

create view sallyport_directory.agents with (security_invoker) as
  select id, organization_id, is_public from agents;

create view sallyport_directory.clusters with (security_invoker) as
  select id, organization_id, slug, base_url, status, last_heartbeat_at from clusters;

create view sallyport_directory.issuer_keys with (security_invoker) as
  select issuer, keys, fetched_at from issuer_keys;

create view sallyport_directory.audit_events with (security_invoker) as
  select id, at, action, actor_id, credential, organization_id, subject_id, token_id, cluster_id, client_address,
    request_id
  from audit_events;

-- Behind "security_invoker" it is the rights on the tables that count, as they did without the views.
grant usage on schema sallyport_directory to public;
grant select, insert, update, delete on
  sallyport_directory.users, sallyport_directory.user_identities, sallyport_directory.role_assignments,
  sallyport_directory.organizations, sallyport_directory.auth_access_tokens, sallyport_directory.agents,
  sallyport_directory.clusters, sallyport_directory.issuer_keys, sallyport_directory.audit_events
to public;
