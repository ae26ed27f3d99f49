-- Whether a user's address is known to be the user's: only then may another identity with that address be linked to it.

-- Users without an identity were made by operators. Those of a login have whatever address it came with.
alter table users add column email_verified boolean not null default true;
update users set email_verified = false where exists (select from user_identities i where i.user_id = users.id);
alter table users alter column email_verified set default false;

create function sallyport_doubt_email() returns trigger language plpgsql set search_path = pg_catalog as $$
begin
  new.email_verified := false;
  return new;
end
$$;

create trigger sallyport_doubt_email before update on users for each row
when (old.email is distinct from new.email)
execute function sallyport_doubt_email();

create or replace view sallyport_directory.users with (security_invoker) as
  select id, email, username, first_name, last_name, full_name, user_type, current_organization_id, updated_at,
    email_verified
  from users;

-- Notes that an issuer has verified this address, if it is still the user's. Null where the gateway keeps no such note.
create function sallyport_directory.verify_email(user_id integer, address text) returns boolean language sql as $$
  with verified as (
    update sallyport_directory.users u set email_verified = true
    where u.id = user_id and not u.email_verified and lower(u.email collate "C") = lower(address collate "C")
    returning u.id
  )
  select exists (select from verified)
$$;

-- Without case in ASCII alone: by the rules of other collations the Kelvin sign is a "k", and another mailbox.
create index users_email_ascii on users (lower(email collate "C"));
drop index users_email;

alter table audit_events
  drop constraint audit_events_action_check,
  add constraint audit_events_action_check check (action in
    ('token.minted', 'token.revoked', 'organization.switched', 'cluster.suspended', 'cluster.resumed',
     'identity.linked'));
