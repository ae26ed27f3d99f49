#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { runBeatCluster, runListClusters, runResumeCluster, runSuspendCluster } from './boot/command-clusters.ts'
import { generateKey } from './boot/command-keys.ts'
import { runMigrate } from './boot/command-migrate.ts'
import { type RotateOptions, runRotateKeys } from './boot/command-rotate.ts'
import { runServe } from './boot/command-serve.ts'
import { type MintOptions, runListTokens, runMintToken, runRevokeToken } from './boot/command-tokens.ts'
import { reportFailure } from './boot/failure.ts'
import { runCheckPolicy, runExplain, runMatrix } from './boot/policy/commands.ts'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }

const defaultConfig = 'config/gateway.yaml'

const program = new Command('sallyport')
  .description('Authorization gateway: who you are, for which organization, what you may do; and only then forward.')
  .version(version)
  .showHelpAfterError('(add --help for usage and an example)')
  .addHelpText('after', example('npx sallyport demo', 'npx sallyport serve --config config/gateway.yaml'))

program
  .command('serve')
  .description('run the gateway; SIGTERM drains it, Ctrl-C stops it without delay')
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .addHelpText('after', example('DATABASE_URL=postgres://… npx sallyport serve --config config/gateway.yaml'))
  .action(({ config }: { config: string }) => runServe(config))

program
  .command('demo')
  .description('run a whole world on this machine: PostgreSQL, an OIDC issuer, backends, and the gateway before them')
  .addHelpText('after', example('npx sallyport demo', 'cat .sallyport/demo.json'))
  .action(async () => {
    // The demo's parts are development dependencies: loaded only here, since a production install has none of them.
    const { runDemo } = await import('./demo/demo.ts')
    await runDemo()
  })

program
  .command('migrate')
  .description("bring the directory's schema up to date")
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .option('--json', 'print the applied migrations as JSON')
  .addHelpText('after', example('DATABASE_URL=postgres://… npx sallyport migrate'))
  .action((options: { config: string; json?: boolean }) => runMigrate(options.config, options.json === true))

const keys = program
  .command('keys')
  .description('keys that sign the identity header')
  .addHelpText('after', example('npx sallyport keys generate'))

keys
  .command('generate')
  .description('make a private key in a new file (mode 0600)')
  .option('-o, --out <file>', 'where to write it', '.sallyport/identity.pem')
  .option('-a, --algorithm <name>', 'EdDSA or ES256', 'EdDSA')
  .option('--json', 'print the file and key id as JSON')
  .addHelpText('after', example('npx sallyport keys generate --out /etc/sallyport/identity.pem'))
  .action((options: { out: string; algorithm: string; json?: boolean }) => generateKey(options))

keys
  .command('rotate')
  .description('add a key that will sign to a key file, and drop those that are long done')
  .option('--file <file>', 'the key file', '.sallyport/identity.pem')
  .option('--after <seconds>', 'how long the new key is published before it signs', '300')
  .option('--force', 'replace a new key that does not sign yet')
  .option('--json', 'print the key ids as JSON')
  .addHelpText('after', example('npx sallyport keys rotate --file /etc/sallyport/identity.pem'))
  .action((options: RotateOptions) => runRotateKeys(options))

const tokens = program
  .command('tokens')
  .description('API tokens of service accounts, straight in the database')
  .addHelpText('after', example('npx sallyport tokens list --user 8'))

tokens
  .command('mint')
  .description('mint a token; it alone is printed on standard output, this once')
  .requiredOption('--organization <id>', 'an Enterprise organization')
  .requiredOption('--user <id>', 'a service account that is a member of it')
  .requiredOption('--scope <scope>', 'api-key or api-secret, or another token scope of the policy')
  .option('--name <text>', 'what it is for')
  .option('--expires-at <time>', 'RFC 3339, such as 2030-01-01T00:00:00Z; without it the token does not expire')
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .option('--json', 'print token and metadata as JSON')
  .addHelpText(
    'after',
    example('TOKEN=$(npx sallyport tokens mint --organization 1 --user 8 --scope api-key --name ci)'),
  )
  .action((options: MintOptions) => runMintToken(options))

tokens
  .command('list')
  .description("list a user's tokens, newest first; never a secret")
  .requiredOption('--user <id>', 'whose tokens')
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .option('--json', 'print the list as JSON')
  .addHelpText('after', example('npx sallyport tokens list --user 8'))
  .action((options: { config: string; user: string; json?: boolean }) => runListTokens(options))

tokens
  .command('revoke')
  .description('revoke a token; whoever still sends it gets 401')
  .argument('<id>', 'the number of the token, as "tokens list" shows it')
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .option('--json', 'print what was revoked as JSON')
  .addHelpText('after', example('npx sallyport tokens revoke 12'))
  .action((id: string, options: { config: string; json?: boolean }) => runRevokeToken(id, options))

const clusters = program
  .command('clusters')
  .description('data clusters, straight in the database')
  .addHelpText('after', example('npx sallyport clusters list'))

clusters
  .command('list')
  .description('list all clusters with their state')
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .option('--json', 'print the list as JSON')
  .addHelpText('after', example('npx sallyport clusters list'))
  .action((options: { config: string; json?: boolean }) => runListClusters(options))

for (const [name, description, run] of [
  ['suspend', 'suspend a cluster: its proxy answers 403', runSuspendCluster],
  ['resume', 'take a suspension back', runResumeCluster],
  ['heartbeat', 'note that a cluster was heard of just now', runBeatCluster],
] as const)
  clusters
    .command(name)
    .description(description)
    .argument('<id>', 'the number of the cluster, as "clusters list" shows it')
    .option('-c, --config <file>', 'configuration file', defaultConfig)
    .option('--json', 'print the cluster as JSON')
    .addHelpText('after', example(`npx sallyport clusters ${name} 7`))
    .action((id: string, options: { config: string; json?: boolean }) => run(id, options))

const policy = program
  .command('policy')
  .description('questions about the policy table; nothing runs, and nothing is changed')
  .addHelpText(
    'after',
    example('npx sallyport policy check', 'npx sallyport policy explain GET /datasets --role org-client'),
  )

/** A folder alone needs no configuration, and none of its secrets. */
const policySource = (command: Command): Command =>
  command
    .option('-c, --config <file>', 'configuration file; names the folder and the upstreams', defaultConfig)
    .option('-p, --policies <folder>', 'a folder of policies instead, for any upstreams')
    .option('--json', 'print it as JSON')

policySource(policy.command('check'))
  .description('find every mistake, with file, line and column, and what is seldom meant')
  .option('--strict', 'end with 1 where there is a warning')
  .addHelpText('after', example('npx sallyport policy check --policies policies --strict'))
  .action(runCheckPolicy)

policySource(policy.command('explain'))
  .description('say what a request would get, check by check, and the row that decided')
  .argument('<method>')
  .argument('<target>', 'path and query, as a client sends them')
  .option('--role <slug>', 'the role held in the organization in force; without it no organization is')
  .option('--platform-role <slug>', 'a role on the platform; may be repeated', collect, [])
  .option('--scope <name>', 'an API token of this scope, instead of an OAuth token')
  .option('--ability <name>', 'an API token with this ability; may be repeated', collect, [])
  .option('--agent <whose>', "the agent of the request: 'own', 'public' or 'foreign'", 'own')
  .option('--host <host>', 'the Host header', 'localhost')
  .option('--anonymous', 'without a credential')
  .addHelpText('after', example('npx sallyport policy explain DELETE /datasets/5 --role org-member --scope api-key'))
  .action(runExplain)

policySource(policy.command('matrix'))
  .description('print who may do what: every route by role and credential')
  .option('-f, --format <name>', 'table, markdown, csv or json', 'table')
  .addHelpText('after', example('npx sallyport policy matrix --format markdown > matrix.md'))
  .action(runMatrix)

function collect(value: string, earlier: readonly string[]): readonly string[] {
  return [...earlier, value]
}

function example(...lines: string[]): string {
  return `\nExample:\n${lines.map((line) => `  $ ${line}\n`).join('')}`
}

// Commander exits 1 on bad usage by itself; the contract says 2.
for (const command of [program, ...program.commands, ...program.commands.flatMap(({ commands }) => commands)])
  command.exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))

await program.parseAsync().catch(reportFailure)
