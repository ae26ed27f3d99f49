#!/usr/bin/env node
import { Command } from 'commander'
import { describeProgram } from './cli/describe-program.ts'
import { example } from './cli/help.ts'
import { lazyCommand } from './cli/lazy-command.ts'
import { addPolicyCommands } from './cli/policy/commands.ts'
import { addProvisionCommands } from './cli/provision/commands.ts'
import { reportFailure } from './configuration/failure.ts'
import { findLackingFixes } from './configuration/node-releases.ts'
import { describeVersions, readVersion } from './configuration/version.ts'
import { takeEarlySignals } from './fault/early-signals.ts'
import { paintError } from './lib/paint.ts'

const defaultConfig = 'config/gateway.yaml'

const loadTokens = () => import('./cli/tokens.ts')
const loadClusters = () => import('./cli/clusters.ts')

const program = new Command('sallyport')
  .description('Authorization gateway: check the caller, the organization and the permission, and only then forward')
  .version(readVersion())
  .configureOutput({ outputError: (text, write) => write(paintError(text)) })
  .showHelpAfterError('(add --help for usage and an example)')
  .addHelpText('after', example('npx sallyport demo', 'npx sallyport serve --config config/gateway.yaml'))
  .hook('preAction', (_program, command) => {
    if (command.name() === 'serve') takeEarlySignals()
    else if (command.name() !== 'demo') endWithReader()
  })

program
  .command('serve')
  .description('Run the gateway; SIGTERM drains it, and Ctrl-C drains it within 2 s')
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .addHelpText('after', example('DATABASE_URL=postgres://… npx sallyport serve --config config/gateway.yaml'))
  .action(lazyCommand(() => import('./cli/serve.ts'), 'runServe'))

program
  .command('demo')
  .description('Run a complete demo on this machine: PostgreSQL, an OIDC issuer, backends, and the gateway before them')
  .addHelpText('after', example('npx sallyport demo', 'cat .sallyport/demo.json'))
  .action(async () => {
    // Loaded only here: the demo needs development dependencies, which a production install lacks.
    const { runDemo } = await import('./demo/demo.ts')
    await runDemo()
  })

program
  .command('migrate')
  .description("Update the schema of the directory's database")
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .option('--adopt', "keep another program's tables as they are, and add the gateway's own beside them")
  .option('--from-unreleased', 'take over the database of a program from before 0.1.0, once; its data stay')
  .option('--json', 'print the applied migrations as JSON')
  .addHelpText('after', example('DATABASE_URL=postgres://… npx sallyport migrate'))
  .action(lazyCommand(() => import('./cli/migrate.ts'), 'runMigrate'))

program
  .command('healthcheck')
  .description('Check whether the gateway of this configuration, on this machine, is ready; exit with 1 if not')
  .option('-c, --config <file>', 'configuration file; names the admin listener', defaultConfig)
  .option('--live', 'check liveness only (/healthz); ignore database outages and draining')
  .option('--timeout-ms <milliseconds>', 'longest wait for a response', '4000')
  .option('--json', 'print the response as JSON')
  .addHelpText('after', example('npx sallyport healthcheck --config config/gateway.yaml'))
  .action(lazyCommand(() => import('./cli/healthcheck.ts'), 'runHealthcheck'))

program
  .command('explain-request')
  .description('Say why a request was refused, from the audit file or the admin listener')
  .argument('<request-id>', 'x-request-id of the response')
  .option('--audit <file>', 'search this audit file; - is standard input')
  .option('--admin <url>', 'ask this admin listener for the requests that it remembers')
  .option(
    '-c, --config <file>',
    'configuration file; names the policy, the database, and both places where neither is given',
    defaultConfig,
  )
  .option('--json', 'print what was found as JSON')
  .addHelpText(
    'after',
    example(
      'npx sallyport explain-request 0f9b2c3e-0d4e-4a51-9a57-3e1f2a7d9b11',
      'kubectl logs deploy/sallyport | npx sallyport explain-request ID --audit -',
      'npx sallyport explain-request ID --admin http://127.0.0.1:9090 --json',
    ),
  )
  .action(lazyCommand(() => import('./cli/explain-request.ts'), 'runExplainRequest'))

const keys = program
  .command('keys')
  .description('Manage the keys that sign the identity header')
  .addHelpText('after', example('npx sallyport keys generate'))

keys
  .command('generate')
  .description('Write a new private key to a new file (mode 0600)')
  .option('-o, --out <file>', 'file to write', '.sallyport/identity.pem')
  .option('-a, --algorithm <name>', 'EdDSA or ES256', 'EdDSA')
  .option('--json', 'print the file and key id as JSON')
  .addHelpText('after', example('npx sallyport keys generate --out /etc/sallyport/identity.pem'))
  .action(lazyCommand(() => import('./cli/keys.ts'), 'generateKey'))

keys
  .command('rotate')
  .description('Add a signing key to a key file and remove expired keys')
  .option('--file <file>', 'the key file', '.sallyport/identity.pem')
  .option('--after <seconds>', 'time between the publication of the new key and its first signature', '300')
  .option('--force', 'replace a new key that has not signed yet')
  .option('--json', 'print the key ids as JSON')
  .addHelpText('after', example('npx sallyport keys rotate --file /etc/sallyport/identity.pem'))
  .action(lazyCommand(() => import('./cli/rotate-keys.ts'), 'runRotateKeys'))

program
  .command('token')
  .description('Judge a token as the gateway does')
  .addHelpText('after', example('npx sallyport token inspect < token.txt'))
  .command('inspect')
  .description('Say which checks of the gateway the token on standard input passes, without printing it')
  .option('-c, --config <file>', 'configuration file; names issuers and database', defaultConfig)
  .option('--json', 'print the checks as JSON')
  .addHelpText(
    'after',
    example('npx sallyport token inspect < token.txt', 'pbpaste | npx sallyport token inspect --json'),
  )
  .action(lazyCommand(() => import('./cli/inspect-token.ts'), 'runInspectToken'))

const tokens = program
  .command('tokens')
  .description('Manage API tokens of service accounts directly in the database')
  .addHelpText('after', example('npx sallyport tokens list --user 8'))

tokens
  .command('mint')
  .description('Mint a token and print it, once, on standard output')
  .requiredOption('--organization <id>', 'an Enterprise organization')
  .requiredOption('--user <id>', 'a service account that is a member of it')
  .requiredOption('--scope <scope>', 'api-key or api-secret, or another token scope of the policy')
  .option('--name <text>', 'purpose of the token')
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
  .description("List a user's tokens without their secrets, newest first")
  .requiredOption('--user <id>', 'id of the user')
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .option('--json', 'print the list as JSON')
  .addHelpText('after', example('npx sallyport tokens list --user 8'))
  .action(lazyCommand(loadTokens, 'runListTokens'))

tokens
  .command('revoke')
  .description('Revoke a token; further requests with it get 401')
  .argument('<id>', 'id of the token, from "tokens list"')
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .option('--json', 'print the revoked token as JSON')
  .addHelpText('after', example('npx sallyport tokens revoke 12'))
  .action(lazyCommand(loadTokens, 'runRevokeToken'))

const clusters = program
  .command('clusters')
  .description('Manage data clusters directly in the database')
  .addHelpText('after', example('npx sallyport clusters list'))

clusters
  .command('list')
  .description('List all clusters with their state')
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .option('--json', 'print the list as JSON')
  .addHelpText('after', example('npx sallyport clusters list'))
  .action(lazyCommand(loadClusters, 'runListClusters'))

for (const [name, description, run] of [
  ['suspend', 'Suspend a cluster: its proxy responds with 403', 'runSuspendCluster'],
  ['resume', 'Resume a suspended cluster', 'runResumeCluster'],
  ['heartbeat', 'Record a heartbeat of a cluster', 'runRecordHeartbeat'],
] as const)
  clusters
    .command(name)
    .description(description)
    .argument('<id>', 'id of the cluster, from "clusters list"')
    .option('-c, --config <file>', 'configuration file', defaultConfig)
    .option('--json', 'print the cluster as JSON')
    .addHelpText('after', example(`npx sallyport clusters ${name} 7`))
    .action(lazyCommand(loadClusters, run))

const sessions = program
  .command('sessions')
  .description('List open exchanges, and end them on every replica')
  .addHelpText('after', example('npx sallyport sessions list --user 8', 'npx sallyport sessions end --user 8'))

const chosenSessions = (name: string, description: string) =>
  sessions
    .command(name)
    .description(description)
    .option('--user <id>', 'exchanges of this user')
    .option('--organization <id>', 'exchanges in this organization')
    .option('--token <id>', 'exchanges of this API token, and of those minted with it')
    .option('--route <id>', 'exchanges that this route permitted')
    .option('--request <id>', 'the exchange with this x-request-id')
    .option('-c, --config <file>', 'configuration file; names the admin listener and the database', defaultConfig)

chosenSessions('list', 'List the exchanges that are open at one replica, oldest first')
  .option('--admin <url>', 'admin listener of the replica')
  .option('--limit <n>', 'largest number of exchanges in a page, up to 1000', '100')
  .option('--after <place>', 'continue after this place, which the previous page names')
  .option('--json', 'print the page as JSON')
  .addHelpText(
    'after',
    example(
      'npx sallyport sessions list --organization 3 --admin http://127.0.0.1:9090',
      'npx sallyport sessions list --json',
    ),
  )
  .action(lazyCommand(() => import('./cli/sessions.ts'), 'runListSessions'))

chosenSessions('end', 'End the open exchanges that match all options, on every replica; rights stay as they are')
  .option('--json', 'print the order as JSON')
  .addHelpText('after', example('npx sallyport sessions end --user 8'))
  .action(lazyCommand(() => import('./cli/sessions.ts'), 'runEndSessions'))

program
  .command('directory')
  .description('Check the database of users, organizations and tokens')
  .addHelpText('after', example('npx sallyport directory check'))
  .command('check')
  .description('Check every view, column, value and trigger that the gateway needs; change nothing')
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .option(
    '--try-writes',
    'also log in, mint, revoke and update watched tables once, in a transaction that is rolled back',
  )
  .option('--json', 'print the findings as JSON')
  .addHelpText('after', example('DATABASE_URL=postgres://… npx sallyport directory check'))
  .action(lazyCommand(() => import('./cli/check-directory.ts'), 'runCheckDirectory'))

addProvisionCommands(program, clusters, defaultConfig)
addPolicyCommands(program, defaultConfig)

program
  .command('completion')
  .description('Print the completion script of a shell')
  .argument('<shell>', 'bash, zsh or fish')
  .addHelpText('after', example('source <(sallyport completion bash)', 'sallyport completion fish | source'))
  .action(async (shell: string) => (await import('./cli/completion.ts')).runCompletion(program, shell))

program
  .command('version')
  .description('Print the version of the program; as JSON, also those of Node, policies and schema, and the commit')
  .option('--json', 'print all versions as JSON')
  .addHelpText('after', example('npx sallyport version --json'))
  .action(async ({ json }: Readonly<{ json?: boolean }>) => {
    process.stdout.write(`${json ? JSON.stringify(await describeVersions()) : readVersion()}\n`)
    const lack = findLackingFixes(process.version, new Date())
    // On standard error, since scripts read the version.
    if (lack !== undefined) process.stderr.write(`sallyport: Node ${process.version} is for trying only, ${lack}\n`)
  })

program
  .command('reference', { hidden: true })
  .description('Print every command as JSON, for the documentation')
  .action(() => void process.stdout.write(`${JSON.stringify(describeProgram(program))}\n`))

// Commander exits with 1 on bad usage; every command of the gateway exits with 2.
for (const command of [program, ...program.commands, ...program.commands.flatMap(({ commands }) => commands)])
  command.exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))

await program.parseAsync().catch(reportFailure)

/** A reader such as `head` may close the pipe before the command has printed everything. */
function endWithReader(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit()
  })
}
