import { randomUUID } from 'node:crypto'
import { addMember, listMembers, removeMember } from '../../directory/postgres/provision/members.ts'
import { commandLineAudit, withDirectory } from '../cli/directory.ts'
import { printList, printRow } from './prints.ts'
import {
  type Common,
  type Page,
  type PersonOptions,
  readAfter,
  readOrganization,
  readPerson,
  readRole,
} from './readings.ts'

type OfOrganization = Common & Readonly<{ organization: string }>

export type AddMemberOptions = OfOrganization & PersonOptions & Readonly<{ role: string; replace?: boolean }>

export async function runAddMember(options: AddMemberOptions): Promise<void> {
  const organization = readOrganization('--organization', options.organization)
  const person = readPerson(options)
  const { membership, isNew } = await withDirectory(options.config, ({ provisioning, roles }) => {
    const request = {
      organization,
      person,
      role: readRole('--role', options.role, roles),
      replaces: options.replace ?? false,
    }
    return provisioning.change(commandLineAudit(null, randomUUID()), (provision) => addMember(provision, request))
  })
  const { userId, role, organizationId } = membership
  const state = isNew ? 'is' : 'is already'
  printRow(options, { ...membership, isNew }, `user ${userId} ${state} ${role} of organization ${organizationId}`)
}

export async function runRemoveMember(options: OfOrganization & PersonOptions): Promise<void> {
  const organization = readOrganization('--organization', options.organization)
  const person = readPerson(options)
  const ended = await withDirectory(options.config, ({ provisioning }) =>
    provisioning.change(commandLineAudit(null, randomUUID()), (provision) =>
      removeMember(provision, organization, person),
    ),
  )
  const { userId, role, organizationId } = ended
  printRow(options, ended, `user ${userId} is no longer ${role} of organization ${organizationId}`)
}

export async function runListMembers(options: OfOrganization & Page): Promise<void> {
  const organization = readOrganization('--organization', options.organization)
  const after = readAfter(options)
  const rows = await withDirectory(options.config, ({ provisioning }) =>
    provisioning.read((provision) => listMembers(provision, organization, after)),
  )
  printList(options, {
    rows,
    header: ['USER', 'ROLE', 'TYPE', 'EMAIL', 'STATE'],
    cells: ({ userId, role, userType, email, disabledAt }) => [
      String(userId),
      role,
      userType,
      email,
      disabledAt ? 'disabled' : 'active',
    ],
    none: 'the organization has no members',
    idOf: ({ userId }) => userId,
  })
}
