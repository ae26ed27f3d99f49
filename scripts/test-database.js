/** One PostgreSQL for a run. Each world clones its migrated database. */
export async function startTestDatabase() {
  const [{ startPostgres }, { migrate }] = await Promise.all([
    import('../dist/demo/postgres.js'),
    import('../dist/directory/postgres/migrate.js'),
  ])
  const postgres = await startPostgres({ settings: ['max_connections=400'] })
  await migrate(postgres.url)
  return postgres
}
