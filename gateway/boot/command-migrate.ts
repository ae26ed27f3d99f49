import { migrate } from '../directory/postgres/migrate.ts'
import { loadConfiguration } from './configuration.ts'

/** Migrates the database of a configuration and says what was done. */
export async function runMigrate(configFile: string, asJson: boolean): Promise<void> {
  const { database } = loadConfiguration(configFile, process.env)
  const applied = await migrate(database.url)
  if (asJson) {
    process.stdout.write(`${JSON.stringify({ applied })}\n`)
    return
  }
  for (const { version, name } of applied) process.stdout.write(`applied ${version} ${name}\n`)
  process.stdout.write(applied.length === 0 ? 'the schema is up to date\n' : 'done\n')
}
