import { createHash, randomUUID } from 'node:crypto'
import { escapeControls, escapeJson } from '../../base/lib/text-table.ts'
import { UsageError } from '../../configuration/failure.ts'
import { createAgent } from '../../directory/postgres/provision/agents.ts'
import { createCluster } from '../../directory/postgres/provision/clusters.ts'
import { addMember } from '../../directory/postgres/provision/members.ts'
import { createOrganization } from '../../directory/postgres/provision/organizations.ts'
import { createPerson } from '../../directory/postgres/provision/people.ts'
import { type Provision, ProvisionRefusal } from '../../directory/postgres/provision/provisioning.ts'
import { createServiceAccount } from '../../directory/postgres/provision/service-accounts.ts'
import { ConfigurationError } from '../../policy/configuration-error.ts'
import type { Roles } from '../../policy/role.ts'
import { commandLineAudit, withDirectory } from '../cli/directory.ts'
import { type ImportEntry, type ImportKind, readImportFile } from './import-file.ts'
import {
  type Common,
  readAccountType,
  readBaseUrl,
  readEmail,
  readIssuer,
  readOrganization,
  readPerson,
  readRole,
  readSlug,
  readText,
} from './readings.ts'

export type ImportOptions = Common & Readonly<{ dryRun?: boolean; expect?: string }>

type Step = (provision: Provision, newUsers: Set<number>) => Promise<Readonly<{ sign: '+' | '~' | '='; note?: string }>>

type Plan = Readonly<{ hash: string; changes: readonly string[]; unchanged: number }>

export async function runImport(file: string, options: ImportOptions): Promise<void> {
  const { dryRun = false, expect } = options
  if (dryRun === (expect !== undefined))
    throw new UsageError('look first, by --dry-run; then --expect HASH applies exactly what it has shown')
  const entries = readImportFile(file)
  const plan = await withDirectory(options.config, ({ provisioning, roles, issuers }) => {
    const steps = entries.map((entry) => [entry, compileStep(entry, roles, issuers)] as const)
    const work = async (provision: Provision): Promise<Plan> => {
      const found = await takeSteps(provision, steps)
      if (!dryRun && found.hash !== expect)
        throw new ProvisionRefusal(
          `the import would change other entries than expected (its hash is ${found.hash}); nothing was changed: ` +
            'look at it again by --dry-run',
        )
      return found
    }
    return provisioning.change(commandLineAudit(null, randomUUID()), work, dryRun)
  })
  if (options.json) process.stdout.write(`${escapeJson({ ...plan, isApplied: !dryRun })}\n`)
  else process.stdout.write(describePlan(plan, file, dryRun))
}

function describePlan({ hash, changes, unchanged }: Plan, file: string, dryRun: boolean): string {
  const lines = changes.map((change) => `${escapeControls(change)}\n`)
  const counts = `${changes.length} ${dryRun ? 'to change' : 'changed'}, ${unchanged} as they are\n`
  return `${lines.join('')}${counts}${dryRun ? `next: sallyport import ${escapeControls(file)} --expect ${hash}\n` : ''}`
}

async function takeSteps(provision: Provision, steps: readonly (readonly [ImportEntry, Step])[]): Promise<Plan> {
  const newUsers = new Set<number>()
  const changes: string[] = []
  for (const [{ kind, fields, problemAt }, step] of steps) {
    try {
      const { sign, note } = await step(provision, newUsers)
      const texts = Object.entries(fields).map(([name, text]) => `${name}=${JSON.stringify(text)}`)
      if (sign !== '=') changes.push([sign, kind, ...texts, ...(note === undefined ? [] : [note])].join(' '))
    } catch (error) {
      if (!(error instanceof ProvisionRefusal)) throw error
      const { file, line, column, message } = problemAt(undefined, error.message)
      throw new ProvisionRefusal(`${file}:${line}:${column}: ${message}`)
    }
  }
  // Over the changes and not the file: --expect refuses where the database has moved on since --dry-run.
  const hash = createHash('sha256').update(JSON.stringify(changes)).digest('hex').slice(0, 32)
  return { hash, changes, unchanged: steps.length - changes.length }
}

function compileStep(entry: ImportEntry, roles: Roles, issuers: ReadonlySet<string>): Step {
  const { fields, problemAt } = entry
  const placed = <Value>(field: string | undefined, read: () => Value): Value => {
    try {
      return read()
    } catch (error) {
      if (error instanceof UsageError) throw new ConfigurationError([problemAt(field, error.message)])
      throw error
    }
  }
  const take: Take = (field, read) => placed(field, () => read(field, fields[field] ?? ''))
  const takeOptional = (field: string): string | null => (fields[field] === undefined ? null : take(field, readText))
  const compiled: Readonly<Record<ImportKind, () => Step>> = {
    organizations: () => compileOrganization(fields, take),
    users: () => {
      const identity = placed('issuer', () => readIssuer(fields, issuers, ''))
      const names = ['username', 'firstName', 'lastName'].map(takeOptional)
      const [username = null, firstName = null, lastName = null] = names
      const isEmailVerified = fields.emailVerified !== undefined && take('emailVerified', readBoolean)
      const person = { userType: 'human', username, firstName, lastName, isEmailVerified, identity } as const
      const email = take('email', readEmail)
      const externalId = take('externalId', readText)
      return noteUser((provision) => createPerson(provision, { ...person, email, externalId }))
    },
    serviceAccounts: () => {
      const organization = take('organization', readOrganization)
      const role = take('role', (what, text) => readRole(what, text, roles))
      const texts = { email: take('email', readEmail), username: take('name', readText) }
      const externalId = take('externalId', readText)
      return noteUser((provision) => createServiceAccount(provision, { ...texts, organization, role, externalId }))
    },
    members: () => {
      const { userExternalId } = fields
      const person = placed(undefined, () => {
        if (userExternalId === undefined) return readPerson(fields, '')
        const others = [fields.user, fields.issuer, fields.subject, fields.email]
        if (others.every((other) => other === undefined)) return { externalId: userExternalId }
        throw new UsageError('name the user in one way only')
      })
      const organization = take('organization', readOrganization)
      const role = take('role', (what, text) => readRole(what, text, roles))
      return async (provision, newUsers) => {
        const { membership, isNew, was } = await addMember(provision, { organization, person, role, replaces: true })
        const who = newUsers.has(membership.userId) ? 'new user' : `user ${membership.userId}`
        if (!isNew) return { sign: '=' }
        return was === undefined ? { sign: '+', note: `(${who})` } : { sign: '~', note: `(${who}, was ${was})` }
      }
    },
    agents: () => compileAgent(fields, take),
    clusters: () => compileCluster(take),
  }
  return compiled[entry.kind]()
}

type Take = <Value>(field: string, read: (what: string, text: string) => Value) => Value

function compileOrganization(fields: ImportEntry['fields'], take: Take): Step {
  const texts = { name: take('name', readText), externalId: take('externalId', readText) }
  const slug = take('slug', readSlug)
  const accountType = fields.type === undefined ? 'team' : take('type', readAccountType)
  return note((provision) => createOrganization(provision, { ...texts, slug, accountType }))
}

function compileAgent(fields: ImportEntry['fields'], take: Take): Step {
  const organization = take('organization', readOrganization)
  const isPublic = fields.public !== undefined && take('public', readBoolean)
  const texts = { name: take('name', readText), externalId: take('externalId', readText) }
  return note((provision) => createAgent(provision, { ...texts, organization, isPublic }))
}

function compileCluster(take: Take): Step {
  const organization = take('organization', readOrganization)
  const texts = { name: take('name', readText), externalId: take('externalId', readText) }
  const where = { slug: take('slug', readSlug), baseUrl: take('baseUrl', readBaseUrl) }
  return note((provision) => createCluster(provision, { ...texts, ...where, organization }))
}

type Create<Row> = (provision: Provision) => Promise<Readonly<{ row: Row; isNew: boolean }>>

const note =
  (create: Create<unknown>): Step =>
  async (provision) => ({ sign: (await create(provision)).isNew ? '+' : '=' })

const noteUser =
  (create: Create<Readonly<{ id: number }>>): Step =>
  async (provision, newUsers) => {
    const { row, isNew } = await create(provision)
    if (isNew) newUsers.add(row.id)
    return { sign: isNew ? '+' : '=' }
  }

function readBoolean(what: string, text: string): boolean {
  if (text === 'true' || text === 'false') return text === 'true'
  throw new UsageError(`${what} must be true or false`)
}
