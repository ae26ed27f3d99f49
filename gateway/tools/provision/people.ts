import { randomUUID } from 'node:crypto'
import { requireOrganization } from '../../directory/postgres/provision/organizations.ts'
import {
  createPerson,
  listServiceAccounts,
  type ManagedUser,
  requirePerson,
  setPersonDisabled,
} from '../../directory/postgres/provision/people.ts'
import { createServiceAccount } from '../../directory/postgres/provision/service-accounts.ts'
import { commandLineAudit, readId, withDirectory } from '../cli/directory.ts'
import { printList, printRow } from './prints.ts'
import {
  type Common,
  type Page,
  type PersonOptions,
  readAfter,
  readEmail,
  readExternalId,
  readIssuer,
  readOrganization,
  readPerson,
  readRole,
  readText,
} from './readings.ts'

export async function runFindUser(options: Common & PersonOptions): Promise<void> {
  const reference = readPerson(options)
  const row = await withDirectory(options.config, ({ provisioning }) =>
    provisioning.read((provision) => requirePerson(provision, reference)),
  )
  const lines = [
    ['id', String(row.id)],
    ['type', row.userType],
    ['email', `${row.email} (${row.isEmailVerified ? 'verified' : 'not verified'})`],
    ['username', row.username ?? '-'],
    ['name', [row.firstName, row.lastName].filter((name) => name !== null).join(' ') || '-'],
    ['external id', row.externalId ?? '-'],
    ['state', row.disabledAt ? `disabled at ${row.disabledAt.toISOString()}` : 'active'],
    ...row.identities.map(({ issuer, subject }) => ['identity', `${subject} of ${issuer}`] as const),
  ] as const
  printRow(options, row, lines.map(([label, value]) => `${label.padEnd(13)}${value}`).join('\n'))
}

export type CreateUserOptions = Common &
  Pick<PersonOptions, 'issuer' | 'subject'> &
  Readonly<{
    email: string
    emailVerified?: boolean
    username?: string
    firstName?: string
    lastName?: string
    externalId?: string
  }>

const readOptional = (what: string, text: string | undefined): string | null =>
  text === undefined ? null : readText(what, text)

export async function runCreateUser(options: CreateUserOptions): Promise<void> {
  const person = {
    userType: 'human',
    email: readEmail('--email', options.email),
    isEmailVerified: options.emailVerified ?? false,
    username: readOptional('--username', options.username),
    firstName: readOptional('--first-name', options.firstName),
    lastName: readOptional('--last-name', options.lastName),
    externalId: readExternalId(options.externalId),
  } as const
  const { row, isNew } = await withDirectory(options.config, ({ provisioning, issuers }) => {
    const identity = readIssuer(options, issuers)
    return provisioning.change(commandLineAudit(null, randomUUID()), (provision) =>
      createPerson(provision, { ...person, identity }),
    )
  })
  printRow(options, { ...row, isNew }, describeCreated('user', row, isNew))
}

const describeCreated = (what: string, { id, email }: ManagedUser, isNew: boolean): string =>
  isNew ? `created ${what} ${id} (${email})` : `${what} ${id} (${email}) is there already`

export const runDisableUser = (options: Common & PersonOptions): Promise<void> => setDisabled(options, true)

export const runEnableUser = (options: Common & PersonOptions): Promise<void> => setDisabled(options, false)

async function setDisabled(options: Common & PersonOptions, isDisabled: boolean): Promise<void> {
  const reference = readPerson(options)
  const row = await withDirectory(options.config, ({ provisioning }) =>
    provisioning.change(commandLineAudit(null, randomUUID()), (provision) =>
      setPersonDisabled(provision, reference, isDisabled),
    ),
  )
  const state = isDisabled ? 'disabled: every credential of it is refused' : 'enabled'
  printRow(options, row, `user ${row.id} (${row.email}) is ${state}`)
}

export type CreateServiceAccountOptions = Common &
  Readonly<{ organization: string; email: string; name: string; role?: string; externalId?: string }>

export async function runCreateServiceAccount(options: CreateServiceAccountOptions): Promise<void> {
  const account = {
    organization: readOrganization('--organization', options.organization),
    email: readEmail('--email', options.email),
    username: readText('--name', options.name),
    externalId: readExternalId(options.externalId),
  }
  const { row, isNew } = await withDirectory(options.config, ({ provisioning, roles }) => {
    const role = readRole('--role', options.role ?? roles.meanings.reads.slug, roles)
    return provisioning.change(commandLineAudit(null, randomUUID()), (provision) =>
      createServiceAccount(provision, { ...account, role }),
    )
  })
  printRow(options, { ...row, isNew }, describeCreated('service account', row, isNew))
}

export async function runListServiceAccounts(options: Common & Page & Readonly<{ organization?: string }>) {
  const after = readAfter(options)
  const { organization: named } = options
  const organization = named === undefined ? undefined : readOrganization('--organization', named)
  const rows = await withDirectory(options.config, ({ provisioning }) =>
    provisioning.read(async (provision) => {
      const id = organization ? (await requireOrganization(provision, organization)).id : null
      return listServiceAccounts(provision, after, id)
    }),
  )
  printList(options, {
    rows,
    header: ['ID', 'NAME', 'EMAIL', 'EXTERNAL ID', 'STATE'],
    cells: ({ id, username, email, externalId, disabledAt }) => [
      String(id),
      username ?? '-',
      email,
      externalId ?? '-',
      disabledAt ? 'disabled' : 'active',
    ],
    none: 'no service account was found',
    idOf: ({ id }) => id,
  })
}

export const runDisableServiceAccount = async (id: string, options: Common): Promise<void> => {
  const reference = { id: readId('the service account', id) }
  const row = await withDirectory(options.config, ({ provisioning }) =>
    provisioning.change(commandLineAudit(null, randomUUID()), (provision) =>
      // Demands a service account, so that a wrong id disables no person.
      setPersonDisabled(provision, reference, true, 'client-managed'),
    ),
  )
  printRow(options, row, `service account ${row.id} (${row.email}) is disabled: its tokens are refused`)
}
