import { randomInt, randomUUID } from 'node:crypto'
import { GatewayError, type ValidationMessage } from '../../base/errors/gateway-error.ts'
import { escapeControls, escapeJson, formatTable } from '../../base/lib/text-table.ts'
import { UsageError } from '../../configuration/failure.ts'
import type { Directory, TokenMetadata } from '../../directory/directory.ts'
import type { Roles } from '../../policy/role.ts'
import { describeToken, findTokenOwner, issueToken } from '../../stages/endpoints/issue-token.ts'
import { commandLineAudit, readId, withDirectory } from './directory.ts'

type Common = Readonly<{ config: string; json?: boolean }>

export type MintOptions = Common &
  Readonly<{ organization: string; user: string; scope: string; name?: string; expiresAt?: string }>

/** Mints by the rules of the endpoint. Standard output holds the token alone, so that a shell can take it. */
export async function runMintToken(options: MintOptions): Promise<void> {
  const organizationId = readId('--organization', options.organization)
  const userId = readId('--user', options.user)
  const { scope, name, expiresAt } = options
  const issued = await withDirectory(options.config, async ({ directory, roles }) => {
    const organization = await directory.findOrganization(organizationId)
    if (!organization)
      throw new Error(`organization ${organizationId} does not exist. Name another with --organization.`)
    const audit = commandLineAudit(organizationId, randomUUID())
    const tools = { directory, draw: randomInt, now: () => new Date() }
    try {
      const owner = await findTokenOwner(organization, userId, directory)
      const minting = { organizationId, audit, within: '*', latest: null } as const
      return await issueToken(owner, { scope, name, expiresAt }, roles, minting, tools)
    } catch (error) {
      throw explainMint(error, organizationId, userId)
    }
  })
  process.stdout.write(options.json ? `${escapeJson(issued)}\n` : `${issued.token}\n`)
  if (options.json) return
  const expiry = issued.expiresAt === null ? 'does not expire' : `expires ${issued.expiresAt}`
  process.stderr.write(
    `minted token ${issued.id}${quoteName(issued.name)} of user ${userId}: ${scope}, ${expiry}\n` +
      'Store it as a secret now: only its hash is kept. ' +
      `"sallyport tokens revoke ${issued.id}" revokes it.\n`,
  )
}

export async function runListTokens(options: Common & Readonly<{ user: string }>): Promise<void> {
  const userId = readId('--user', options.user)
  const { tokens, roles } = await withDirectory(options.config, async ({ directory, findUser, roles }) => {
    if (!(await findUser(userId))) throw new Error(`user ${userId} does not exist. Name another with --user.`)
    return { tokens: await readAllPages(directory, userId), roles }
  })
  if (options.json) process.stdout.write(`${escapeJson(tokens.map(describeToken))}\n`)
  else if (tokens.length === 0) process.stdout.write(`user ${userId} has no tokens\n`)
  else process.stdout.write(describeTokens(tokens, roles.tokenScopes, new Date()))
}

export async function runRevokeToken(tokenId: string, options: Common): Promise<void> {
  const id = readId('the token', tokenId)
  const { revoked, userId } = await withDirectory(options.config, async ({ directory }) => {
    const userId = (await directory.findToken(id))?.user.id
    const audit = commandLineAudit(null, randomUUID())
    const revoked = userId === undefined ? undefined : await directory.revokeToken({ id, userId }, audit)
    if (!revoked)
      throw new Error(
        `token ${id} does not exist, or is revoked already. Run "sallyport tokens list --user ID" to see the others.`,
      )
    return { revoked, userId }
  })
  if (options.json) process.stdout.write(`${escapeJson(describeToken(revoked))}\n`)
  else process.stdout.write(`revoked token ${id}${quoteName(revoked.name)} of user ${userId}\n`)
}

const quoteName = (name: string | null): string => (name === null ? '' : ` "${escapeControls(name)}"`)

/** Hardly any account has more, so that one query lists most. */
const pageSize = 1_000

/** Page by page, so that each answer comes in time. A token that a new one pushed to the next page counts once. */
async function readAllPages(directory: Directory, userId: number): Promise<readonly TokenMetadata[]> {
  const found = new Map<number, TokenMetadata>()
  for (let page = 1; ; page++) {
    const { tokens } = await directory.listTokens(userId, { page, perPage: pageSize })
    for (const token of tokens) found.set(token.id, token)
    if (tokens.length < pageSize) return [...found.values()]
  }
}

export function describeTokens(tokens: readonly TokenMetadata[], scopes: Roles['tokenScopes'], now: Date): string {
  const header = ['ID', 'NAME', 'SCOPE', 'LAST USED', 'EXPIRES', 'CREATED']
  const rows = tokens.map(({ id, name, abilities, lastUsedAt, expiresAt, createdAt }) => [
    String(id),
    name ?? '-',
    nameScope(abilities, scopes),
    lastUsedAt?.toISOString() ?? 'never',
    describeExpiry(expiresAt, now),
    createdAt?.toISOString() ?? '-',
  ])
  return formatTable(header, rows)
}

function nameScope(abilities: readonly string[], scopes: Roles['tokenScopes']): string {
  const held = new Set(abilities)
  for (const [scope, of] of scopes)
    if (of.size === held.size && [...of].every((ability) => held.has(ability))) return scope
  return held.size === 1 ? '1 ability' : `${held.size} abilities`
}

function describeExpiry(expiresAt: Date | null, now: Date): string {
  if (expiresAt === null) return 'never'
  return `${expiresAt.toISOString()}${expiresAt <= now ? ' (expired)' : ''}`
}

function explainMint(error: unknown, organizationId: number, userId: number): unknown {
  if (!(error instanceof GatewayError)) return error
  switch (error.code) {
    case 'enterprise_required':
      return new Error(
        `organization ${organizationId} is not an Enterprise organization, and only those have API tokens. ` +
          'Name another with --organization.',
      )
    case 'resource_not_found':
      return new Error(
        `user ${userId} is not a member of organization ${organizationId}. Give it a role there, or name another with --user.`,
      )
    case 'validation_failure':
      return explainMessages(error.details.messages ?? [])
    default:
      return error
  }
}

const optionNames: Readonly<Record<string, string>> = {
  userId: '--user',
  scope: '--scope',
  name: '--name',
  expiresAt: '--expires-at',
}

/** A user who cannot have tokens is a fact of the directory; all other messages are about the options. */
function explainMessages(messages: readonly ValidationMessage[]): Error {
  const text = messages.map(({ field, message }) => `${optionNames[field] ?? field}: ${message}`).join('\n')
  const isUsage = messages.some(({ field }) => field !== 'userId')
  return isUsage ? new UsageError(text) : new Error(`${text} Name a service account with --user.`)
}
