import { loadConfiguration, requireDatabase } from '../configuration/configuration.ts'
import { migrate } from '../directory/postgres/migrate.ts'
import { loadPolicy } from '../policy/load.ts'

export type MigrateCommandOptions = Readonly<{ config: string; json?: boolean; adopt?: boolean }>

export async function runMigrate({ config, json, adopt = false }: MigrateCommandOptions): Promise<void> {
  const configuration = loadConfiguration(config, process.env)
  const { policies, upstreams } = configuration
  const { url } = requireDatabase(configuration)
  const { resources } = loadPolicy(policies.directory, new Set(Object.keys(upstreams)))
  const { applied, created, missing } = await migrate(url, { adopt, resources: [...resources.values()] })
  if (json) {
    process.stdout.write(`${JSON.stringify({ applied, created, missing })}\n`)
    return
  }
  for (const { version, name } of applied) process.stdout.write(`applied ${version} ${name}\n`)
  for (const name of created) process.stdout.write(`created table and view resources_${name}\n`)
  for (const name of missing) process.stdout.write(`missing view sallyport_directory.resources_${name}\n`)
  process.stdout.write(applied.length + created.length === 0 ? 'the schema is up to date\n' : 'done\n')
  if (adopt)
    process.stdout.write(
      'next: map the tables by views (docs/guides/adopt-a-database.md), then "sallyport directory check"\n',
    )
}
