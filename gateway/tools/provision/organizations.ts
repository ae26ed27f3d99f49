import { randomUUID } from 'node:crypto'
import {
  archiveOrganization,
  createOrganization,
  listOrganizations,
  type ManagedOrganization,
  requireOrganization,
} from '../../directory/postgres/provision/organizations.ts'
import { commandLineAudit, withDirectory } from '../cli/directory.ts'
import { printList, printRow } from './prints.ts'
import {
  type Common,
  type Page,
  readAccountType,
  readAfter,
  readExternalId,
  readOrganization,
  readSlug,
  readText,
} from './readings.ts'

export type CreateOrganizationOptions = Common &
  Readonly<{ name: string; slug: string; type: string; externalId?: string }>

export async function runCreateOrganization(options: CreateOrganizationOptions): Promise<void> {
  const wanted = {
    name: readText('--name', options.name),
    slug: readSlug('--slug', options.slug),
    accountType: readAccountType('--type', options.type),
    externalId: readExternalId(options.externalId),
  }
  const { row, isNew } = await withDirectory(options.config, ({ provisioning }) =>
    provisioning.change(commandLineAudit(null, randomUUID()), (provision) => createOrganization(provision, wanted)),
  )
  const named = nameOrganization(row)
  printRow(options, { ...row, isNew }, isNew ? `created ${named}` : `${named} is there already`)
}

export async function runListOrganizations(options: Common & Page): Promise<void> {
  const after = readAfter(options)
  const rows = await withDirectory(options.config, ({ provisioning }) =>
    provisioning.read((provision) => listOrganizations(provision, after)),
  )
  printList(options, {
    rows,
    header: ['ID', 'SLUG', 'NAME', 'TYPE', 'MEMBERS', 'EXTERNAL ID', 'STATE'],
    cells: ({ id, slug, name, accountType, memberCount, externalId, archivedAt }) => [
      String(id),
      slug,
      name,
      accountType,
      String(memberCount),
      externalId ?? '-',
      archivedAt ? 'archived' : 'active',
    ],
    none: 'no organization was found',
    idOf: ({ id }) => id,
  })
}

export async function runShowOrganization(named: string, options: Common): Promise<void> {
  const reference = readOrganization('the organization', named)
  const row = await withDirectory(options.config, ({ provisioning }) =>
    provisioning.read((provision) => requireOrganization(provision, reference)),
  )
  const { id, slug, name, accountType, memberCount, externalId, archivedAt } = row
  const lines = [
    ['id', String(id)],
    ['slug', slug],
    ['name', name],
    ['type', accountType],
    ['members', String(memberCount)],
    ['external id', externalId ?? '-'],
    ['state', archivedAt ? `archived at ${archivedAt.toISOString()}` : 'active'],
  ] as const
  printRow(options, row, lines.map(([label, value]) => `${label.padEnd(13)}${value}`).join('\n'))
}

export async function runArchiveOrganization(named: string, options: Common): Promise<void> {
  const reference = readOrganization('the organization', named)
  const row = await withDirectory(options.config, ({ provisioning }) =>
    provisioning.change(commandLineAudit(null, randomUUID()), (provision) => archiveOrganization(provision, reference)),
  )
  printRow(options, row, `${nameOrganization(row)} is archived: to the gateway it does not exist`)
}

const nameOrganization = ({ id, slug }: ManagedOrganization): string => `organization ${id} (${slug})`
