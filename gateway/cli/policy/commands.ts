import { type Command, Option } from 'commander'
import { example } from '../help.ts'
import { lazyCommand } from '../lazy-command.ts'

/** Adds `sallyport policy …` to the command line. */
export function addPolicyCommands(program: Command, defaultConfig: string): void {
  const policy = program
    .command('policy')
    .description('questions about the policy table; but for confirm nothing runs, and nothing is changed')
    .addHelpText(
      'after',
      example('npx sallyport policy check', 'npx sallyport policy explain GET /datasets --role org-client'),
    )
  const sourced = (name: string): Command => addSourced(policy, name, defaultConfig)
  addCheck(sourced('check'))
  addExplain(sourced('explain'))
  addMatrix(sourced('matrix'))
  addTest(sourced('test'))
  addCoverage(sourced('coverage'))
  addInit(policy.command('init'))
  addDiff(policy.command('diff'))
  addConfirm(policy.command('confirm'), defaultConfig)
}

/** A command about one table. A folder alone needs no configuration, and none of its secrets. */
const addSourced = (policy: Command, name: string, defaultConfig: string): Command =>
  policy
    .command(name)
    .option('-c, --config <file>', 'configuration file; names the folder and the upstreams', defaultConfig)
    .option('-p, --policies <folder>', 'a folder of policies instead, for any upstreams')
    .option('--json', 'print it as JSON')

function addCheck(command: Command): void {
  command
    .description('find every mistake, with file, line and column, and what is seldom meant')
    .option('--strict', 'end with 1 where there is a warning')
    .addHelpText('after', example('npx sallyport policy check --policies policies --strict'))
    .action(lazyCommand(() => import('./check.ts'), 'runCheckPolicy'))
}

function addExplain(command: Command): void {
  command
    .description('say what a request would get, check by check, and the row that decided')
    .argument('<method>')
    .argument('<target>', 'path and query, as a client sends them')
    .option('--role <slug>', 'the role held in the organization in force; without it no organization is')
    .option('--platform-role <slug>', 'a role on the platform; may be repeated', collect, [])
    .option('--credential <kind>', "'none', 'oauth', or the scope of an API token, such as 'api-key'")
    .option('--scope <name>', 'an API token of this scope, instead of an OAuth token')
    .option('--ability <name>', 'an API token with this ability; may be repeated', collect, [])
    .option('--agent <whose>', "the agent of the request: 'own', 'public' or 'foreign'", 'own')
    .option('--host <host>', 'the Host header', 'localhost')
    .option('--anonymous', 'without a credential')
    .option('--user <id>', 'somebody of the database instead, as they are now')
    .option('--organization <id>', 'with --user: the organization that the request names in its header (or --org)')
    .addOption(new Option('--org <id>').hideHelp())
    .option('--token <id>', 'with --user: by this API token of theirs, instead of an OAuth token')
    .addHelpText(
      'after',
      example(
        'npx sallyport policy explain DELETE /datasets/5 --role org-member --scope api-key',
        'npx sallyport policy explain GET /datasets --user 8 --organization 1',
      ),
    )
    .action(lazyCommand(() => import('./explain.ts'), 'runExplain'))
}

function addMatrix(command: Command): void {
  command
    .description('print who may do what: every route by role and credential')
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
    .description('try what *.test.yaml beside the policies expect of them; end with 1 where something else comes out')
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
    .option('--base <path>', "the path before every path of it, instead of what its 'servers' say")

function addCoverage(command: Command): void {
  addDescription(command)
    .description('compare with an API description: operations without a route, routes without an operation')
    .option('--strict', 'end with 1 where a route has no operation, too')
    .addHelpText('after', example('npx sallyport policy coverage --policies policies --openapi openapi.yaml'))
    .action(lazyCommand(() => import('./openapi.ts'), 'runCoverage'))
}

function addInit(command: Command): void {
  addDescription(command)
    .description('draft a table from an API description, as closed as can be, on standard output')
    .option('--upstream <name>', 'where its requests go, a name under upstreams of the configuration', 'platform')
    .addHelpText('after', example('npx sallyport policy init --openapi openapi.yaml > policies/api.yaml'))
    .action(lazyCommand(() => import('./openapi.ts'), 'runInit'))
}

function addDiff(command: Command): void {
  command
    .description('say what another table means: which route, role and credential gains or loses access')
    .argument('<old>', 'the folder of policies as it was, or one file that holds all of them')
    .argument('<new>', 'the folder as it shall be')
    .option('--allow-widening', 'end with 0 even where somebody gains access')
    .option('-f, --format <name>', 'table, markdown or json', 'table')
    .option('--json', 'print it as JSON')
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
    .description(
      'have the running gateway take policy files that it holds back (SIGHUP to the process on this machine)',
    )
    .option(
      '-c, --config <file>',
      'configuration file; names the admin listener by which the process is found',
      defaultConfig,
    )
    .option('--pid <number>', 'the process, where it cannot be found: of a group the one that was started first')
    .addHelpText('after', example('npx sallyport policy confirm', 'kubectl exec POD -- sallyport policy confirm'))
    .action(lazyCommand(() => import('./confirm.ts'), 'runConfirm'))
}

function collect(value: string, earlier: readonly string[]): readonly string[] {
  return [...earlier, value]
}
