import { type Command, Option } from 'commander'
import { example } from '../help.ts'
import { lazyCommand } from '../lazy-command.ts'

export function addPolicyCommands(program: Command, defaultConfig: string): void {
  const policy = program
    .command('policy')
    .description('Check, explain and compare policies; only "confirm" changes a running gateway')
    .addHelpText(
      'after',
      example('npx sallyport policy check', 'npx sallyport policy explain GET /datasets --role org-client'),
    )
  const sourced = (name: string): Command => addSourced(policy, name, defaultConfig)
  addCheck(sourced('check'))
  addExplain(sourced('explain'))
  addWhoMay(policy.command('who-may'), defaultConfig)
  addMatrix(sourced('matrix'))
  addTest(sourced('test'))
  addCoverage(sourced('coverage'))
  addInit(policy.command('init'), defaultConfig)
  addDiff(policy.command('diff'))
  addConfirm(policy.command('confirm'), defaultConfig)
}

/** A folder alone needs neither the configuration nor its secrets. */
const addSourced = (policy: Command, name: string, defaultConfig: string): Command =>
  policy
    .command(name)
    .option('-c, --config <file>', 'configuration file that names the folder and the upstreams', defaultConfig)
    .option('-p, --policies <folder>', 'a folder of policies instead, for any upstreams')
    .option('--json', 'print the result as JSON')

function addCheck(command: Command): void {
  command
    .description('Report every mistake, with file, line and column, and suspicious rules')
    .option('--strict', 'exit with 1 if there is a warning')
    .option('--all', 'show each warning, also where more than ten are of one kind')
    .addHelpText(
      'after',
      example('npx sallyport policy check --policies policies --strict', 'npx sallyport policy check --all'),
    )
    .action(lazyCommand(() => import('./check.ts'), 'runCheckPolicy'))
}

function addExplain(command: Command): void {
  command
    .description('Explain the outcome of a request, check by check, and name the deciding route')
    .argument('<method>', 'HTTP method, such as GET')
    .argument('<target>', 'path and query, as a client sends them')
    .option('--role <slug>', 'the role in the organization in force; omit it for a request without organization')
    .option('--platform-role <slug>', 'a role on the platform; may be repeated', collect, [])
    .option('--credential <kind>', "'none', 'oauth', or the scope of an API token, such as 'api-key'")
    .option('--scope <name>', 'an API token of this scope, instead of an OAuth token')
    .option('--ability <name>', 'an API token with this ability; may be repeated', collect, [])
    .option('--agent <whose>', "the agent of the request: 'own', 'public' or 'foreign'", 'own')
    .option('--host <host>', 'the Host header', 'localhost')
    .option('--anonymous', 'a request without a credential')
    .option('--user <id>', 'a user of the database, instead of a described caller')
    .option('--organization <id>', 'with --user: the organization that the request names in its header (or --org)')
    .addOption(new Option('--org <id>').hideHelp())
    .option('--token <id>', 'with --user: this API token of the user, instead of an OAuth token')
    .option('--against <path>', 'another policy, such as the one in force: its outcome, and what differs from it')
    .addHelpText(
      'after',
      example(
        'npx sallyport policy explain DELETE /datasets/5 --role org-member --scope api-key',
        'npx sallyport policy explain GET /datasets --user 8 --organization 1',
        'npx sallyport policy explain GET /datasets/5 --role org-member --against /srv/policies-in-force',
      ),
    )
    .action(lazyCommand(() => import('./explain.ts'), 'runExplain'))
}

function addWhoMay(command: Command, defaultConfig: string): void {
  command
    .description('List the members of an organization who may send a request, by the facts in the database')
    .argument('<method>', 'HTTP method, such as GET')
    .argument('<target>', 'path and query, as a client sends them')
    .requiredOption('--organization <organization>', 'id or slug of the organization in force')
    .option('--host <host>', 'the Host header, by default a host that no route names')
    .option('--after <id>', 'only users after this id')
    .option('-c, --config <file>', 'configuration file', defaultConfig)
    .option('--json', 'print the result as JSON')
    .addHelpText('after', example('npx sallyport policy who-may DELETE /datasets/5 --organization acme'))
    .action(lazyCommand(() => import('./who-may.ts'), 'runWhoMay'))
}

function addMatrix(command: Command): void {
  command
    .description('Print the access matrix: every route by role and credential')
    .option('-f, --format <name>', 'table, markdown, csv, html or json', 'table')
    .addHelpText(
      'after',
      example(
        'npx sallyport policy matrix --format markdown > matrix.md',
        'npx sallyport policy matrix --format html > matrix.html',
      ),
    )
    .action(lazyCommand(() => import('./matrix.ts'), 'runMatrix'))
}

function addTest(command: Command): void {
  command
    .description('Run the expectations of *.test.yaml beside the policies; exit with 1 if one fails')
    .option('-f, --format <name>', 'text, tap or json', 'text')
    .addHelpText(
      'after',
      example('npx sallyport policy test --policies policies', 'npx sallyport policy test -p policies --format tap'),
    )
    .action(lazyCommand(() => import('./test.ts'), 'runTestPolicy'))
}

const addDescription = (command: Command): Command =>
  command
    .requiredOption('--openapi <file>', 'an OpenAPI 3 description, YAML or JSON')
    .option('--base <path>', "prefix of every path, instead of the description's 'servers'")

function addCoverage(command: Command): void {
  addDescription(command)
    .description('Compare with an API description: list operations without a route and routes without an operation')
    .option('--strict', 'exit with 1 also if a route has no operation')
    .addHelpText('after', example('npx sallyport policy coverage --policies policies --openapi openapi.yaml'))
    .action(lazyCommand(() => import('./openapi.ts'), 'runCoverage'))
}

function addInit(command: Command, defaultConfig: string): void {
  addDescription(command)
    .description('Draft a closed policy from an API description, on standard output')
    .option('--upstream <name>', 'the upstream of its requests, a name in the configuration', 'platform')
    .option('--roles <slugs>', 'roles, lowest first: the lowest reads, the middle writes, the highest deletes')
    .option('--add', 'print only routes that an existing policy lacks, as a file to put beside its files')
    .option('-c, --config <file>', 'with --add: configuration file that names the policy', defaultConfig)
    .option('-p, --policies <folder>', 'with --add: the folder of the policy instead')
    .addHelpText(
      'after',
      example(
        'npx sallyport policy init --openapi openapi.yaml > policies/api.yaml',
        'npx sallyport policy init --openapi openapi.yaml --roles viewer,editor,owner > policies/api.yaml',
        'npx sallyport policy init --openapi openapi.yaml --add --policies policies > more.yaml',
      ),
    )
    .action(lazyCommand(() => import('./openapi.ts'), 'runInit'))
}

function addDiff(command: Command): void {
  command
    .description('Compare two policies: list routes, roles and credentials that gain or lose access')
    .argument('<old>', 'the old folder of policies, or one file that holds all of them')
    .argument('<new>', 'the new folder of policies')
    .option('--allow-widening', 'exit with 0 even if a caller gains access')
    .option('-f, --format <name>', 'table, markdown or json', 'table')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      example(
        'git worktree add ../main origin/main',
        'npx sallyport policy diff ../main/policies policies --format markdown',
      ),
    )
    .action(lazyCommand(() => import('./diff.ts'), 'runDiff'))
}

function addConfirm(command: Command, defaultConfig: string): void {
  command
    .description('Accept policy files that the running gateway holds back (SIGHUP to the process on this machine)')
    .option('-c, --config <file>', 'configuration file whose admin listener identifies the process', defaultConfig)
    .option('--pid <number>', 'the process id, if it is not found; with workers, that of the primary')
    .addHelpText('after', example('npx sallyport policy confirm', 'kubectl exec POD -- sallyport policy confirm'))
    .action(lazyCommand(() => import('./confirm.ts'), 'runConfirm'))
}

function collect(value: string, earlier: readonly string[]): readonly string[] {
  return [...earlier, value]
}
