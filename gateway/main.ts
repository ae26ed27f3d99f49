#!/usr/bin/env node
import { Command } from 'commander'
import { describeProgram } from './cli/describe-program.ts'
import { example } from './cli/help.ts'
import { lazyCommand } from './cli/lazy-command.ts'
import { addPolicyCommands } from './cli/policy/commands.ts'
import { addProvisionCommands } from './cli/provision/commands.ts'
import { reportFailure } from './configuration/failure.ts'
import { readVersion } from './configuration/version.ts'
import { takeEarlySignals } from './fault/early-signals.ts'

const defaultConfig = 'config/gateway.yaml'

const loadTokens = () => import('./cli/tokens.ts')
const loadClusters = () => import('./cli/clusters.ts')

const program = new Command('sallyport')
  .description('Authorization gateway: who you are, for which organization, what you may do; and only then forward.')
  .version(readVersion())
  .showHelpAfterError('(add --help for usage and an example)')
  .addHelpText('after', example('npx sallyport demo', 'npx sallyport serve --config config/gateway.yaml'))
  .hook('preAction', (_program, command) => {
    // What serves goes on, and has to end in its own way.
    if (command.name() === 'serve') takeEarlySignals()
    else if (command.name() !== 'demo') endWithReader()
  })

program
  .command('serve')
  .description('run the gateway; SIGTERM drains it, Ctrl-C stops it without delay')
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .addHelpText('after', example('DATABASE_URL=postgres://… npx sallyport serve --config config/gateway.yaml'))
  .action(lazyCommand(() => import('./cli/serve.ts'), 'runServe'))

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
  .option('--adopt', "leave another program's tables as they are, and add what the gateway needs beside them")
  .option('--json', 'print the applied migrations as JSON')
  .addHelpText('after', example('DATABASE_URL=postgres://… npx sallyport migrate'))
  .action(lazyCommand(() => import('./cli/migrate.ts'), 'runMigrate'))

program
  .command('healthcheck')
  .description(
    'ask the gateway of this configuration, on this machine, whether it is ready; end with 1 where it is not',
  )
  .option('-c, --config <file>', 'configuration file; names the admin listener', defaultConfig)
  .option('--live', 'whether it lives is enough, with its database down or while it drains')
  .option('--timeout-ms <milliseconds>', 'how long to wait for an answer', '4000')
  .option('--json', 'print what it said as JSON')
  .addHelpText('after', example('npx sallyport healthcheck --config config/gateway.yaml'))
  .action(lazyCommand(() => import('./cli/healthcheck.ts'), 'runHealthcheck'))

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
  .action(lazyCommand(() => import('./cli/keys.ts'), 'generateKey'))

keys
  .command('rotate')
  .description('add a key that will sign to a key file, and drop those that are long done')
  .option('--file <file>', 'the key file', '.sallyport/identity.pem')
  .option('--after <seconds>', 'how long the new key is published before it signs', '300')
  .option('--force', 'replace a new key that does not sign yet')
  .option('--json', 'print the key ids as JSON')
  .addHelpText('after', example('npx sallyport keys rotate --file /etc/sallyport/identity.pem'))
  .action(lazyCommand(() => import('./cli/rotate-keys.ts'), 'runRotateKeys'))

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
  .action(lazyCommand(loadTokens, 'runMintToken'))

tokens
  .command('list')
  .description("list a user's tokens, newest first; never a secret")
  .requiredOption('--user <id>', 'whose tokens')
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .option('--json', 'print the list as JSON')
  .addHelpText('after', example('npx sallyport tokens list --user 8'))
  .action(lazyCommand(loadTokens, 'runListTokens'))

tokens
  .command('revoke')
  .description('revoke a token; whoever still sends it gets 401')
  .argument('<id>', 'the number of the token, as "tokens list" shows it')
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .option('--json', 'print what was revoked as JSON')
  .addHelpText('after', example('npx sallyport tokens revoke 12'))
  .action(lazyCommand(loadTokens, 'runRevokeToken'))

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
  .action(lazyCommand(loadClusters, 'runListClusters'))

for (const [name, description, run] of [
  ['suspend', 'suspend a cluster: its proxy answers 403', 'runSuspendCluster'],
  ['resume', 'take a suspension back', 'runResumeCluster'],
  ['heartbeat', 'note that a cluster was heard of just now', 'runRecordHeartbeat'],
] as const)
  clusters
    .command(name)
    .description(description)
    .argument('<id>', 'the number of the cluster, as "clusters list" shows it')
    .option('-c, --config <file>', 'configuration file', defaultConfig)
    .option('--json', 'print the cluster as JSON')
    .addHelpText('after', example(`npx sallyport clusters ${name} 7`))
    .action(lazyCommand(loadClusters, run))

program
  .command('directory')
  .description('the database that users, organizations and tokens are read from')
  .addHelpText('after', example('npx sallyport directory check'))
  .command('check')
  .description('compare every view, column, row and trigger with what the gateway needs; changes nothing')
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .option('--try-writes', 'log in, mint and revoke once as well, in a transaction that is rolled back')
  .option('--json', 'print what was found as JSON')
  .addHelpText('after', example('DATABASE_URL=postgres://… npx sallyport directory check'))
  .action(lazyCommand(() => import('./cli/check-directory.ts'), 'runCheckDirectory'))

addProvisionCommands(program, defaultConfig)
addPolicyCommands(program, defaultConfig)

program
  .command('reference', { hidden: true })
  .description('print every command as JSON, for the documentation')
  .action(() => void process.stdout.write(`${JSON.stringify(describeProgram(program))}\n`))

// Commander exits 1 on bad usage by itself; the contract says 2.
for (const command of [program, ...program.commands, ...program.commands.flatMap(({ commands }) => commands)])
  command.exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))

await program.parseAsync().catch(reportFailure)

/** Whoever reads what a command prints may stop before its end, as `head` does. */
function endWithReader(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit()
  })
}
