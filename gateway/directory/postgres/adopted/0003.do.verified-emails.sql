-- Whether a user's address was verified is the backend's to say, by the column email_verified of its view of users. The
-- gateway keeps no note of it; a backend that wants one replaces this function.
create function sallyport_directory.verify_email(user_id integer, address text) returns boolean language sql as $$
  select null::boolean
$$;

alter table sallyport_directory.audit_events
  drop constraint audit_events_action_check,
  add constraint audit_events_action_check check (action in
    ('token.minted', 'token.revoked', 'organization.switched', 'cluster.suspended', 'cluster.resumed',
     'identity.linked'));
