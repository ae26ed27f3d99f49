import { randomUUID } from 'node:crypto'
import { archiveAgent, createAgent, listAgents } from '../../directory/postgres/provision/agents.ts'
import { createCluster } from '../../directory/postgres/provision/clusters.ts'
import { commandLineAudit, readId, withDirectory } from '../cli/directory.ts'
import { printList, printRow } from './prints.ts'
import {
  type Common,
  type Page,
  readAfter,
  readBaseUrl,
  readExternalId,
  readOrganization,
  readSlug,
  readText,
} from './readings.ts'

export type CreateAgentOptions = Common &
  Readonly<{ organization: string; name: string; public?: boolean; externalId?: string }>

export async function runCreateAgent(options: CreateAgentOptions): Promise<void> {
  const wanted = {
    organization: readOrganization('--organization', options.organization),
    name: readText('--name', options.name),
    isPublic: options.public ?? false,
    externalId: readExternalId(options.externalId),
  }
  const { row, isNew } = await withDirectory(options.config, ({ provisioning }) =>
    provisioning.change(commandLineAudit(null, randomUUID()), (provision) => createAgent(provision, wanted)),
  )
  const named = `agent ${row.id} (${row.name}) of organization ${row.organizationId}`
  printRow(options, { ...row, isNew }, isNew ? `created ${named}` : `${named} is there already`)
}

export async function runListAgents(options: Common & Page & Readonly<{ organization?: string }>): Promise<void> {
  const after = readAfter(options)
  const { organization: named } = options
  const organization = named === undefined ? undefined : readOrganization('--organization', named)
  const rows = await withDirectory(options.config, ({ provisioning }) =>
    provisioning.read((provision) => listAgents(provision, after, organization)),
  )
  printList(options, {
    rows,
    header: ['ID', 'ORGANIZATION', 'NAME', 'VISIBILITY', 'EXTERNAL ID', 'STATE'],
    cells: ({ id, organizationId, name, isPublic, externalId, archivedAt }) => [
      String(id),
      String(organizationId),
      name ?? '-',
      isPublic ? 'public' : 'members',
      externalId ?? '-',
      archivedAt ? 'archived' : 'active',
    ],
    none: 'no agent was found',
    idOf: ({ id }) => id,
  })
}

export async function runArchiveAgent(text: string, options: Common): Promise<void> {
  const id = readId('the agent', text)
  const row = await withDirectory(options.config, ({ provisioning }) =>
    provisioning.change(commandLineAudit(null, randomUUID()), (provision) => archiveAgent(provision, id)),
  )
  printRow(options, row, `agent ${id} (${row.name}) is archived: to the gateway it does not exist`)
}

export type CreateClusterOptions = Common &
  Readonly<{ organization: string; name: string; slug: string; baseUrl: string; externalId?: string }>

export async function runCreateCluster(options: CreateClusterOptions): Promise<void> {
  const wanted = {
    organization: readOrganization('--organization', options.organization),
    name: readText('--name', options.name),
    slug: readSlug('--slug', options.slug),
    baseUrl: readBaseUrl('--base-url', options.baseUrl),
    externalId: readExternalId(options.externalId),
  }
  const { row, isNew } = await withDirectory(options.config, ({ provisioning }) =>
    provisioning.change(commandLineAudit(null, randomUUID()), (provision) => createCluster(provision, wanted)),
  )
  const named = `cluster ${row.id} (${row.slug}) of organization ${row.organizationId}`
  const text = isNew ? `created ${named}: offline until its first heartbeat` : `${named} is there already`
  printRow(options, { ...row, isNew }, text)
}
