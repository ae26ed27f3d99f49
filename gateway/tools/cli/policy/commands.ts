// Commands that read policies. They need no running gateway, except "confirm".
import { Option } from 'commander'
import {
  config,
  type DeclaredCommand,
  type DeclaredCommands,
  json,
  lazy,
  mandatory,
  option,
  repeated,
} from '../command.ts'

/** A folder alone needs neither the configuration nor its secrets. */
const source = [
  config('configuration file that names the folder and the upstreams'),
  option('-p, --policies <folder>', 'a folder of policies instead, for any upstreams'),
  json(),
]

const request = {
  '<method>': 'HTTP method, such as GET',
  '<target>': 'path and query, as a client sends them',
}

const description = [
  mandatory('--openapi <file>', 'an OpenAPI 3 description, YAML or JSON'),
  option('--base <path>', "prefix of every path, instead of the description's 'servers'"),
]

const commands: DeclaredCommands = {
  check: {
    description: 'Report every mistake, with file, line and column, and suspicious rules',
    options: [
      ...source,
      option('--strict', 'exit with 1 if there is a warning'),
      option('--all', 'show each warning, also where more than ten are of one kind'),
    ],
    examples: ['npx sallyport policy check --policies policies --strict', 'npx sallyport policy check --all'],
    run: lazy(() => import('./check.ts'), 'runCheckPolicy'),
  },
  explain: {
    description: 'Explain the outcome of a request, check by check, and name the deciding route',
    arguments: request,
    options: [
      ...source,
      option('--role <slug>', 'the role in the organization in force; omit it for a request without organization'),
      repeated('--platform-role <slug>', 'a role on the platform; may be repeated'),
      option('--credential <kind>', "'none', 'oauth', or the scope of an API token, such as 'api-key'"),
      option('--scope <name>', 'an API token of this scope, instead of an OAuth token'),
      repeated('--ability <name>', 'an API token with this ability; may be repeated'),
      option('--agent <whose>', "the agent of the request: 'own', 'public' or 'foreign'", 'own'),
      option('--host <host>', 'the Host header', 'localhost'),
      option('--anonymous', 'a request without a credential'),
      option('--user <id>', 'a user of the database, instead of a described caller'),
      option('--organization <id>', 'with --user: the organization that the request names in its header (or --org)'),
      new Option('--org <id>').hideHelp(),
      option('--token <id>', 'with --user: this API token of the user, instead of an OAuth token'),
      option('--against <path>', 'another policy, such as the one in force: its outcome, and what differs from it'),
    ],
    examples: [
      'npx sallyport policy explain DELETE /datasets/5 --role org-member --scope api-key',
      'npx sallyport policy explain GET /datasets --user 8 --organization 1',
      'npx sallyport policy explain GET /datasets/5 --role org-member --against /srv/policies-in-force',
    ],
    run: lazy(() => import('./explain.ts'), 'runExplain'),
  },
  'who-may': {
    description: 'List the members of an organization who may send a request, by the facts in the database',
    arguments: request,
    options: [
      mandatory('--organization <organization>', 'id or slug of the organization in force'),
      option('--host <host>', 'the Host header, by default a host that no route names'),
      option('--after <id>', 'only users after this id'),
      config(),
      json(),
    ],
    examples: ['npx sallyport policy who-may DELETE /datasets/5 --organization acme'],
    run: lazy(() => import('./who-may.ts'), 'runWhoMay'),
  },
  matrix: {
    description: 'Print the access matrix: every route by role and credential',
    options: [...source, option('-f, --format <name>', 'table, markdown, csv, html or json', 'table')],
    examples: [
      'npx sallyport policy matrix --format markdown > matrix.md',
      'npx sallyport policy matrix --format html > matrix.html',
    ],
    run: lazy(() => import('./matrix.ts'), 'runMatrix'),
  },
  test: {
    description: 'Run the expectations of *.test.yaml beside the policies; exit with 1 if one fails',
    options: [...source, option('-f, --format <name>', 'text, tap or json', 'text')],
    examples: ['npx sallyport policy test --policies policies', 'npx sallyport policy test -p policies --format tap'],
    run: lazy(() => import('./test.ts'), 'runTestPolicy'),
  },
  coverage: {
    description: 'Compare with an API description: list operations without a route and routes without an operation',
    options: [...source, ...description, option('--strict', 'exit with 1 also if a route has no operation')],
    examples: ['npx sallyport policy coverage --policies policies --openapi openapi.yaml'],
    run: lazy(() => import('./openapi.ts'), 'runCoverage'),
  },
  init: {
    description: 'Draft a closed policy from an API description, on standard output',
    options: [
      ...description,
      option('--upstream <name>', 'the upstream of its requests, a name in the configuration', 'platform'),
      option('--roles <slugs>', 'roles, lowest first: the lowest reads, the middle writes, the highest deletes'),
      option('--add', 'print only routes that an existing policy lacks, as a file to put beside its files'),
      config('with --add: configuration file that names the policy'),
      option('-p, --policies <folder>', 'with --add: the folder of the policy instead'),
    ],
    examples: [
      'npx sallyport policy init --openapi openapi.yaml > policies/api.yaml',
      'npx sallyport policy init --openapi openapi.yaml --roles viewer,editor,owner > policies/api.yaml',
      'npx sallyport policy init --openapi openapi.yaml --add --policies policies > more.yaml',
    ],
    run: lazy(() => import('./openapi.ts'), 'runInit'),
  },
  diff: {
    description: 'Compare two policies: list routes, roles and credentials that gain or lose access',
    arguments: {
      '<old>': 'the old folder of policies, or one file that holds all of them',
      '<new>': 'the new folder of policies',
    },
    options: [
      option('--allow-widening', 'exit with 0 even if a caller gains access'),
      option('-f, --format <name>', 'table, markdown or json', 'table'),
      json(),
    ],
    examples: [
      'git worktree add ../main origin/main',
      'npx sallyport policy diff ../main/policies policies --format markdown',
    ],
    run: lazy(() => import('./diff.ts'), 'runDiff'),
  },
  confirm: {
    description: 'Accept policy files that the running gateway holds back (SIGHUP to the process on this machine)',
    options: [
      config('configuration file whose admin listener identifies the process'),
      option('--pid <number>', 'the process id, if it is not found; with workers, that of the primary'),
    ],
    examples: ['npx sallyport policy confirm', 'kubectl exec POD -- sallyport policy confirm'],
    run: lazy(() => import('./confirm.ts'), 'runConfirm'),
  },
}

export const policy: DeclaredCommand = {
  description: 'Check, explain and compare policies; only "confirm" changes a running gateway',
  examples: ['npx sallyport policy check', 'npx sallyport policy explain GET /datasets --role org-client'],
  commands,
}
