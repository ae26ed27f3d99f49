/** One PostgreSQL for a run. Each world clones its migrated database. */
export async function startTestDatabase() {
  const [{ startPostgres }, { migrate }] = await Promise.all([
    import('../dist/demo/postgres.js'),
    import('../dist/directory/postgres/migrate.js'),
  ])
  // A worker of autovacuum is the superuser's, and lets no other role drop its database by force.
  const postgres = await startPostgres({ settings: ['max_connections=400', 'autovacuum=off'] })
  await migrate(postgres.url)
  return postgres
}
