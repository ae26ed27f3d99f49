// Commands that write users, organizations, members and agents straight into the database.
import { config, type DeclaredCommand, type DeclaredCommands, json, lazy, mandatory, option } from '../cli/command.ts'

const loadOrganizations = () => import('./organizations.ts')
const loadMembers = () => import('./members.ts')
const loadPeople = () => import('./people.ts')
const loadAgents = () => import('./agents.ts')

const common = [config(), json()]

const person = [
  option('--user <id>', 'a user by its id'),
  option('--issuer <url>', 'a user by the issuer and --subject of its tokens'),
  option('--subject <sub>', 'the subject, with --issuer'),
  option('--email <address>', 'the one user with this verified address'),
]

const organization = mandatory('--organization <organization>', 'id or slug')

const after = option('--after <id>', 'only entries after this id')

const externalId = option(
  '--external-id <text>',
  'name of the entry in another system; the same command again changes nothing',
)

const organizations: DeclaredCommand = {
  description: 'Manage organizations directly in the database',
  examples: ['npx sallyport organizations list'],
  commands: {
    create: {
      description: 'Create an organization',
      options: [
        ...common,
        mandatory('--name <text>', 'name for people'),
        mandatory('--slug <slug>', 'short unique name: lower-case letters, digits and hyphens'),
        option('--type <type>', 'individual, team or enterprise; only the last may have service accounts', 'team'),
        externalId,
      ],
      examples: ['npx sallyport organizations create --name "Acme Inc." --slug acme --type enterprise'],
      run: lazy(loadOrganizations, 'runCreateOrganization'),
    },
    list: {
      description: 'List organizations by id, archived ones included',
      options: [...common, after],
      examples: ['npx sallyport organizations list'],
      run: lazy(loadOrganizations, 'runListOrganizations'),
    },
    show: {
      description: 'Show one organization',
      arguments: { '<organization>': 'id or slug' },
      options: common,
      examples: ['npx sallyport organizations show acme'],
      run: lazy(loadOrganizations, 'runShowOrganization'),
    },
    archive: {
      description: 'Archive an organization and its agents; its members lose their roles there',
      arguments: { '<organization>': 'id or slug' },
      options: common,
      examples: ['npx sallyport organizations archive acme'],
      run: lazy(loadOrganizations, 'runArchiveOrganization'),
    },
  },
}

const members: DeclaredCommand = {
  description: 'Manage members of organizations directly in the database',
  examples: ['npx sallyport members list --organization acme'],
  commands: {
    add: {
      description: 'Give a user a role in an organization',
      options: [
        ...common,
        ...person,
        organization,
        mandatory('--role <slug>', 'an organization role of the policy, such as org-member'),
        option('--replace', 'change the role of a user who has another one there'),
      ],
      examples: ['npx sallyport members add --organization acme --user 8 --role org-member'],
      run: lazy(loadMembers, 'runAddMember'),
    },
    remove: {
      description: 'Remove the role of a user in an organization',
      options: [...common, ...person, organization],
      examples: ['npx sallyport members remove --organization acme --user 8'],
      run: lazy(loadMembers, 'runRemoveMember'),
    },
    list: {
      description: 'List the members of an organization',
      options: [...common, organization, option('--after <id>', 'only members after this user id')],
      examples: ['npx sallyport members list --organization acme'],
      run: lazy(loadMembers, 'runListMembers'),
    },
  },
}

const users: DeclaredCommand = {
  description: 'Manage human users directly in the database',
  examples: ['npx sallyport users find --user 8'],
  commands: {
    find: {
      description: 'Show one user, disabled or not',
      options: [...common, ...person],
      examples: ['npx sallyport users find --issuer https://login.example --subject 4711'],
      run: lazy(loadPeople, 'runFindUser'),
    },
    create: {
      description: 'Create a user before the first login',
      options: [
        ...common,
        mandatory('--email <address>', 'e-mail address'),
        option('--email-verified', "the address is known to be the person's, and may link a first login"),
        option('--issuer <url>', "issuer of the person's tokens"),
        option('--subject <sub>', 'their subject, with --issuer'),
        option('--username <text>', 'short name'),
        option('--first-name <text>', 'first name'),
        option('--last-name <text>', 'last name'),
        externalId,
      ],
      examples: ['npx sallyport users create --email ada@acme.example --issuer https://login.example --subject 4711'],
      run: lazy(loadPeople, 'runCreateUser'),
    },
    disable: {
      description: 'Disable a user: every credential of it gets 401, and a login creates no new user',
      options: [...common, ...person],
      examples: ['npx sallyport users disable --user 8'],
      run: lazy(loadPeople, 'runDisableUser'),
    },
    enable: {
      description: 'Enable a disabled user or service account',
      options: [...common, ...person],
      examples: ['npx sallyport users enable --user 8'],
      run: lazy(loadPeople, 'runEnableUser'),
    },
  },
}

const serviceAccounts: DeclaredCommand = {
  description: 'Manage service accounts directly in the database',
  examples: ['npx sallyport service-accounts list'],
  commands: {
    create: {
      description: 'Create a service account in an Enterprise organization',
      options: [
        ...common,
        organization,
        mandatory('--name <text>', 'name of the program'),
        mandatory('--email <address>', 'mailbox of the people who are responsible for it'),
        option('--role <slug>', 'its role in the organization; the lowest that reads, unless given'),
        externalId,
      ],
      examples: ['npx sallyport service-accounts create --organization acme --name ci --email ci@acme.example'],
      run: lazy(loadPeople, 'runCreateServiceAccount'),
    },
    list: {
      description: 'List service accounts by id, disabled ones included',
      options: [
        ...common,
        option('--organization <organization>', 'only members of this organization, by id or slug'),
        after,
      ],
      examples: ['npx sallyport service-accounts list --organization acme'],
      run: lazy(loadPeople, 'runListServiceAccounts'),
    },
    disable: {
      description: 'Disable a service account: its tokens get 401',
      arguments: { '<id>': 'id of the account, from "service-accounts list"' },
      options: common,
      examples: ['npx sallyport service-accounts disable 8'],
      run: lazy(loadPeople, 'runDisableServiceAccount'),
    },
  },
}

const agents: DeclaredCommand = {
  description: 'Manage agents directly in the database',
  examples: ['npx sallyport agents list'],
  commands: {
    create: {
      description: 'Create an agent of an organization',
      options: [
        ...common,
        organization,
        mandatory('--name <text>', 'name for people'),
        option('--public', 'callers of other organizations may run it as well'),
        externalId,
      ],
      examples: ['npx sallyport agents create --organization acme --name Helper'],
      run: lazy(loadAgents, 'runCreateAgent'),
    },
    list: {
      description: 'List agents by id, archived ones included',
      options: [
        ...common,
        option('--organization <organization>', 'only agents of this organization, by id or slug'),
        after,
      ],
      examples: ['npx sallyport agents list --organization acme'],
      run: lazy(loadAgents, 'runListAgents'),
    },
    archive: {
      description: 'Archive an agent: it gets no more requests',
      arguments: { '<id>': 'id of the agent, from "agents list"' },
      options: common,
      examples: ['npx sallyport agents archive 3'],
      run: lazy(loadAgents, 'runArchiveAgent'),
    },
  },
}

const importFile: DeclaredCommand = {
  description: 'Create the entries of a file: --dry-run shows the changes, and --expect applies exactly those',
  arguments: { '<file>': 'YAML file, or CSV file if its name ends in .csv' },
  options: [
    ...common,
    option('--dry-run', 'print what would change, and its hash; changes nothing'),
    option('--expect <hash>', 'apply the changes as a whole, only if they have this hash'),
  ],
  examples: ['npx sallyport import directory.yaml --dry-run'],
  run: lazy(() => import('./import.ts'), 'runImport'),
}

export const createCluster: DeclaredCommand = {
  description: 'Create a cluster, which is offline until its first heartbeat',
  options: [
    ...common,
    organization,
    mandatory('--name <text>', 'name for people'),
    mandatory('--slug <slug>', 'short name, unique in the organization'),
    mandatory('--base-url <url>', 'address of its Data API'),
    externalId,
  ],
  examples: [
    'npx sallyport clusters create --organization acme --name EU --slug eu --base-url https://eu.acme.example',
  ],
  run: lazy(loadAgents, 'runCreateCluster'),
}

export const provisioning: DeclaredCommands = {
  organizations,
  members,
  users,
  'service-accounts': serviceAccounts,
  agents,
  import: importFile,
}
