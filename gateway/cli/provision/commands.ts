import type { Command } from 'commander'
import { example } from '../help.ts'
import { lazyCommand } from '../lazy-command.ts'

const loadOrganizations = () => import('./organizations.ts')
const loadMembers = () => import('./members.ts')

const externalId = 'name of the row in another system; the same command again changes nothing'

/** Adds the commands that fill the directory to the command line. */
export function addProvisionCommands(program: Command, defaultConfig: string): void {
  const add = createAdd(defaultConfig)
  addOrganizations(program, add)
  addMembers(program, add)
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

/** The options by which a command finds one user. */
const withPerson = (command: Command): Command =>
  command
    .option('--user <id>', 'a user by its id')
    .option('--issuer <url>', 'a user by the issuer and --subject of its tokens')
    .option('--subject <sub>', 'the subject, with --issuer')
    .option('--email <address>', 'the one user with this verified address')

function addOrganizations(program: Command, add: Add): void {
  const family = program
    .command('organizations')
    .description('organizations, straight in the database')
    .addHelpText('after', example('npx sallyport organizations list'))
  add(family, 'create', 'create an organization')
    .requiredOption('--name <text>', 'name for people')
    .requiredOption('--slug <slug>', 'short unique name: lower-case letters, digits and hyphens')
    .option('--type <type>', 'individual, team or enterprise; only the last may have service accounts', 'team')
    .option('--external-id <text>', externalId)
    .addHelpText(
      'after',
      example('npx sallyport organizations create --name "Acme Inc." --slug acme --type enterprise'),
    )
    .action(lazyCommand(loadOrganizations, 'runCreateOrganization'))
  add(family, 'list', 'list organizations by id, archived ones included')
    .option('--after <id>', 'only those behind this id')
    .addHelpText('after', example('npx sallyport organizations list'))
    .action(lazyCommand(loadOrganizations, 'runListOrganizations'))
  add(family, 'show', 'show one organization')
    .argument('<organization>', 'id or slug')
    .addHelpText('after', example('npx sallyport organizations show acme'))
    .action(lazyCommand(loadOrganizations, 'runShowOrganization'))
  add(family, 'archive', 'archive an organization and its agents; its members lose their roles there')
    .argument('<organization>', 'id or slug')
    .addHelpText('after', example('npx sallyport organizations archive acme'))
    .action(lazyCommand(loadOrganizations, 'runArchiveOrganization'))
}

function addMembers(program: Command, add: Add): void {
  const family = program
    .command('members')
    .description('members of organizations, straight in the database')
    .addHelpText('after', example('npx sallyport members list --organization acme'))
  withPerson(add(family, 'add', 'give a user a role in an organization'))
    .requiredOption('--organization <organization>', 'id or slug')
    .requiredOption('--role <slug>', 'an organization role of the policy, such as org-member')
    .option('--replace', 'change the role of a user who has another one there')
    .addHelpText('after', example('npx sallyport members add --organization acme --user 8 --role org-member'))
    .action(lazyCommand(loadMembers, 'runAddMember'))
  withPerson(add(family, 'remove', 'take the role of a user in an organization away'))
    .requiredOption('--organization <organization>', 'id or slug')
    .addHelpText('after', example('npx sallyport members remove --organization acme --user 8'))
    .action(lazyCommand(loadMembers, 'runRemoveMember'))
  add(family, 'list', 'list the members of an organization')
    .requiredOption('--organization <organization>', 'id or slug')
    .option('--after <id>', 'only those behind this user')
    .addHelpText('after', example('npx sallyport members list --organization acme'))
    .action(lazyCommand(loadMembers, 'runListMembers'))
}
