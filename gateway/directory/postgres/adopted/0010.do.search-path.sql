-- PostgreSQL looks for types and tables in a session's temporary schema first, unless the path has it last. The check of a
-- caller's domain would then run with the rights of a function's owner.
alter function sallyport_directory.numbered_kind(text) set search_path = pg_catalog, pg_temp;
alter function sallyport_directory.keyed_view(text) set search_path = pg_catalog, pg_temp;
alter function sallyport_directory.is_numbered(text) set search_path = pg_catalog, pg_temp;
alter function sallyport_directory.announce_numbered() set search_path = pg_catalog, pg_temp;
alter function sallyport_directory.write_numbered() set search_path = pg_catalog, pg_temp;
alter function sallyport_directory.announce_changes() set search_path = pg_catalog, pg_temp;
alter procedure sallyport_directory.watch(regclass, text[], text[], text[]) set search_path = pg_catalog, pg_temp;
alter procedure sallyport_directory.number_views() set search_path = pg_catalog, pg_temp;
