import { existsSync } from 'node:fs'
import { loadConfiguration, requireDatabase } from '../../configuration/configuration.ts'
import { migrate } from '../../directory/postgres/migrate.ts'
import { loadPolicy } from '../../policy/load.ts'

export type MigrateCommandOptions = Readonly<{
  config: string
  json?: boolean
  adopt?: boolean
  fromUnreleased?: boolean
}>

const anyUpstream: ReadonlySet<string> = Object.assign(new Set<string>(), { has: () => true })

export async function runMigrate({ config, json, ...options }: MigrateCommandOptions): Promise<void> {
  const configuration = loadConfiguration(config, process.env)
  const { policies } = configuration
  const { url } = requireDatabase(configuration)
  // A job that migrates knows no upstreams, and may have no policies at hand.
  const policy = existsSync(policies.directory) ? loadPolicy(policies.directory, anyUpstream) : undefined
  const { isMoved, applied, created, missing } = await migrate(url, {
    ...options,
    resources: [...(policy?.resources.values() ?? [])],
  })
  if (json) {
    process.stdout.write(`${JSON.stringify({ ...(isMoved && { moved: true }), applied, created, missing })}\n`)
    return
  }
  if (!policy) process.stderr.write(`no tables of resources were looked at: ${policies.directory} does not exist\n`)
  if (isMoved) process.stdout.write('took over the schema of an unreleased program\n')
  for (const { version, name } of applied) process.stdout.write(`applied ${version} ${name}\n`)
  for (const name of created) process.stdout.write(`created table and view resources_${name}\n`)
  for (const name of missing) process.stdout.write(`missing view sallyport_directory.resources_${name}\n`)
  process.stdout.write(applied.length + created.length === 0 && !isMoved ? 'the schema is up to date\n' : 'done\n')
  if (options.adopt)
    process.stdout.write(
      'next: map the tables by views (docs/guides/adopt-a-database.md), then "sallyport directory check"\n',
    )
}
