/** One PostgreSQL for a run. Each world clones its migrated database. */
export async function startTestDatabase() {
  const [{ startPostgres }, { migrate }] = await Promise.all([
    import('../dist/demo/postgres.js'),
    import('../dist/directory/postgres/migrate.js'),
  ])
  // A worker of autovacuum is the superuser's, and lets no other role drop its database by force.
  // A random password of 24 bytes needs no slow hash, and tests open thousands of connections.
  const settings = ['max_connections=400', 'autovacuum=off', 'scram_iterations=1']
  const postgres = await startPostgres({ settings })
  await migrate(postgres.url)
  return postgres
}
