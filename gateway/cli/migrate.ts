import { loadConfiguration, requireDatabase } from '../configuration/configuration.ts'
import { migrate } from '../directory/postgres/migrate.ts'

export type MigrateCommandOptions = Readonly<{ config: string; json?: boolean; adopt?: boolean }>

export async function runMigrate({ config, json, adopt = false }: MigrateCommandOptions): Promise<void> {
  const { url } = requireDatabase(loadConfiguration(config, process.env))
  const applied = await migrate(url, { adopt })
  if (json) {
    process.stdout.write(`${JSON.stringify({ applied })}\n`)
    return
  }
  for (const { version, name } of applied) process.stdout.write(`applied ${version} ${name}\n`)
  process.stdout.write(applied.length === 0 ? 'the schema is up to date\n' : 'done\n')
  if (adopt)
    process.stdout.write(
      'next: map the tables by views (docs/guides/adopt-a-database.md), then "sallyport directory check"\n',
    )
}
