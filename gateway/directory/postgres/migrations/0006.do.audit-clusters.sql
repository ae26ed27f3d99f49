-- Clusters are suspended and resumed by operators: a deed about no user.

alter table audit_events
  drop constraint audit_events_action_check,
  add constraint audit_events_action_check check (action in
    ('token.minted', 'token.revoked', 'organization.switched', 'cluster.suspended', 'cluster.resumed')),
  alter column subject_id drop not null,
  add column cluster_id integer;
