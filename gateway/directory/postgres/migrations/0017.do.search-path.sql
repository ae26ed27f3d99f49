-- PostgreSQL looks for types and tables in a session's temporary schema first, unless the path has it last. These triggers
-- have the rights of a backend's function that writes as its owner, and the caller's types would then count.
alter function sallyport_announce_changes() set search_path = pg_catalog, pg_temp;
alter function sallyport_announce_cluster() set search_path = pg_catalog, pg_temp;
alter function sallyport_doubt_email() set search_path = pg_catalog, pg_temp;
alter function sallyport_decline_disabled() set search_path = pg_catalog, pg_temp;
