import type { Command } from 'commander'
import { example } from '../help.ts'
import { lazyCommand } from '../lazy-command.ts'

const loadOrganizations = () => import('./organizations.ts')
const loadMembers = () => import('./members.ts')
const loadPeople = () => import('./people.ts')
const loadAgents = () => import('./agents.ts')

const externalId = 'name of the entry in another system; the same command again changes nothing'

export function addProvisionCommands(program: Command, clusters: Command, defaultConfig: string): void {
  const add = createAdd(defaultConfig)
  addOrganizations(program, add)
  addMembers(program, add)
  addUsers(program, add)
  addServiceAccounts(program, add)
  addAgents(program, add)
  addCreateCluster(clusters, add)
  addImport(program, add)
}

type Add = (family: Command, name: string, description: string) => Command

const createAdd =
  (defaultConfig: string): Add =>
  (family, name, description) =>
    family
      .command(name)
      .description(description)
      .option('-c, --config <file>', 'configuration file', defaultConfig)
      .option('--json', 'print the result as JSON')

const withPerson = (command: Command): Command =>
  command
    .option('--user <id>', 'a user by its id')
    .option('--issuer <url>', 'a user by the issuer and --subject of its tokens')
    .option('--subject <sub>', 'the subject, with --issuer')
    .option('--email <address>', 'the one user with this verified address')

function addOrganizations(program: Command, add: Add): void {
  const family = program
    .command('organizations')
    .description('Manage organizations directly in the database')
    .addHelpText('after', example('npx sallyport organizations list'))
  add(family, 'create', 'Create an organization')
    .requiredOption('--name <text>', 'name for people')
    .requiredOption('--slug <slug>', 'short unique name: lower-case letters, digits and hyphens')
    .option('--type <type>', 'individual, team or enterprise; only the last may have service accounts', 'team')
    .option('--external-id <text>', externalId)
    .addHelpText(
      'after',
      example('npx sallyport organizations create --name "Acme Inc." --slug acme --type enterprise'),
    )
    .action(lazyCommand(loadOrganizations, 'runCreateOrganization'))
  add(family, 'list', 'List organizations by id, archived ones included')
    .option('--after <id>', 'only entries after this id')
    .addHelpText('after', example('npx sallyport organizations list'))
    .action(lazyCommand(loadOrganizations, 'runListOrganizations'))
  add(family, 'show', 'Show one organization')
    .argument('<organization>', 'id or slug')
    .addHelpText('after', example('npx sallyport organizations show acme'))
    .action(lazyCommand(loadOrganizations, 'runShowOrganization'))
  add(family, 'archive', 'Archive an organization and its agents; its members lose their roles there')
    .argument('<organization>', 'id or slug')
    .addHelpText('after', example('npx sallyport organizations archive acme'))
    .action(lazyCommand(loadOrganizations, 'runArchiveOrganization'))
}

function addMembers(program: Command, add: Add): void {
  const family = program
    .command('members')
    .description('Manage members of organizations directly in the database')
    .addHelpText('after', example('npx sallyport members list --organization acme'))
  withPerson(add(family, 'add', 'Give a user a role in an organization'))
    .requiredOption('--organization <organization>', 'id or slug')
    .requiredOption('--role <slug>', 'an organization role of the policy, such as org-member')
    .option('--replace', 'change the role of a user who has another one there')
    .addHelpText('after', example('npx sallyport members add --organization acme --user 8 --role org-member'))
    .action(lazyCommand(loadMembers, 'runAddMember'))
  withPerson(add(family, 'remove', 'Remove the role of a user in an organization'))
    .requiredOption('--organization <organization>', 'id or slug')
    .addHelpText('after', example('npx sallyport members remove --organization acme --user 8'))
    .action(lazyCommand(loadMembers, 'runRemoveMember'))
  add(family, 'list', 'List the members of an organization')
    .requiredOption('--organization <organization>', 'id or slug')
    .option('--after <id>', 'only members after this user id')
    .addHelpText('after', example('npx sallyport members list --organization acme'))
    .action(lazyCommand(loadMembers, 'runListMembers'))
}

function addUsers(program: Command, add: Add): void {
  const family = program
    .command('users')
    .description('Manage human users directly in the database')
    .addHelpText('after', example('npx sallyport users find --user 8'))
  withPerson(add(family, 'find', 'Show one user, disabled or not'))
    .addHelpText('after', example('npx sallyport users find --issuer https://login.example --subject 4711'))
    .action(lazyCommand(loadPeople, 'runFindUser'))
  add(family, 'create', 'Create a user before the first login')
    .requiredOption('--email <address>', 'e-mail address')
    .option('--email-verified', "the address is known to be the person's, and may link a first login")
    .option('--issuer <url>', "issuer of the person's tokens")
    .option('--subject <sub>', 'their subject, with --issuer')
    .option('--username <text>', 'short name')
    .option('--first-name <text>', 'first name')
    .option('--last-name <text>', 'last name')
    .option('--external-id <text>', externalId)
    .addHelpText(
      'after',
      example('npx sallyport users create --email ada@acme.example --issuer https://login.example --subject 4711'),
    )
    .action(lazyCommand(loadPeople, 'runCreateUser'))
  withPerson(add(family, 'disable', 'Disable a user: every credential of it gets 401, and a login creates no new user'))
    .addHelpText('after', example('npx sallyport users disable --user 8'))
    .action(lazyCommand(loadPeople, 'runDisableUser'))
  withPerson(add(family, 'enable', 'Enable a disabled user or service account'))
    .addHelpText('after', example('npx sallyport users enable --user 8'))
    .action(lazyCommand(loadPeople, 'runEnableUser'))
}

function addServiceAccounts(program: Command, add: Add): void {
  const family = program
    .command('service-accounts')
    .description('Manage service accounts directly in the database')
    .addHelpText('after', example('npx sallyport service-accounts list'))
  add(family, 'create', 'Create a service account in an Enterprise organization')
    .requiredOption('--organization <organization>', 'id or slug')
    .requiredOption('--name <text>', 'name of the program')
    .requiredOption('--email <address>', 'mailbox of the people who are responsible for it')
    .option('--role <slug>', 'its role in the organization; the lowest that reads, unless given')
    .option('--external-id <text>', externalId)
    .addHelpText(
      'after',
      example('npx sallyport service-accounts create --organization acme --name ci --email ci@acme.example'),
    )
    .action(lazyCommand(loadPeople, 'runCreateServiceAccount'))
  add(family, 'list', 'List service accounts by id, disabled ones included')
    .option('--organization <organization>', 'only members of this organization, by id or slug')
    .option('--after <id>', 'only entries after this id')
    .addHelpText('after', example('npx sallyport service-accounts list --organization acme'))
    .action(lazyCommand(loadPeople, 'runListServiceAccounts'))
  add(family, 'disable', 'Disable a service account: its tokens get 401')
    .argument('<id>', 'id of the account, from "service-accounts list"')
    .addHelpText('after', example('npx sallyport service-accounts disable 8'))
    .action(lazyCommand(loadPeople, 'runDisableServiceAccount'))
}

function addAgents(program: Command, add: Add): void {
  const family = program
    .command('agents')
    .description('Manage agents directly in the database')
    .addHelpText('after', example('npx sallyport agents list'))
  add(family, 'create', 'Create an agent of an organization')
    .requiredOption('--organization <organization>', 'id or slug')
    .requiredOption('--name <text>', 'name for people')
    .option('--public', 'callers of other organizations may run it as well')
    .option('--external-id <text>', externalId)
    .addHelpText('after', example('npx sallyport agents create --organization acme --name Helper'))
    .action(lazyCommand(loadAgents, 'runCreateAgent'))
  add(family, 'list', 'List agents by id, archived ones included')
    .option('--organization <organization>', 'only agents of this organization, by id or slug')
    .option('--after <id>', 'only entries after this id')
    .addHelpText('after', example('npx sallyport agents list --organization acme'))
    .action(lazyCommand(loadAgents, 'runListAgents'))
  add(family, 'archive', 'Archive an agent: it gets no more requests')
    .argument('<id>', 'id of the agent, from "agents list"')
    .addHelpText('after', example('npx sallyport agents archive 3'))
    .action(lazyCommand(loadAgents, 'runArchiveAgent'))
}

const addCreateCluster = (clusters: Command, add: Add): void =>
  void add(clusters, 'create', 'Create a cluster, which is offline until its first heartbeat')
    .requiredOption('--organization <organization>', 'id or slug')
    .requiredOption('--name <text>', 'name for people')
    .requiredOption('--slug <slug>', 'short name, unique in the organization')
    .requiredOption('--base-url <url>', 'address of its Data API')
    .option('--external-id <text>', externalId)
    .addHelpText(
      'after',
      example(
        'npx sallyport clusters create --organization acme --name EU --slug eu --base-url https://eu.acme.example',
      ),
    )
    .action(lazyCommand(loadAgents, 'runCreateCluster'))

const addImport = (program: Command, add: Add): void =>
  void add(
    program,
    'import',
    'Create the entries of a file: --dry-run shows the changes, and --expect applies exactly those',
  )
    .argument('<file>', 'YAML file, or CSV file if its name ends in .csv')
    .option('--dry-run', 'print what would change, and its hash; changes nothing')
    .option('--expect <hash>', 'apply the changes as a whole, only if they have this hash')
    .addHelpText('after', example('npx sallyport import directory.yaml --dry-run'))
    .action(lazyCommand(() => import('./import.ts'), 'runImport'))
