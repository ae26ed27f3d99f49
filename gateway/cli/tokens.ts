import { randomInt, randomUUID } from 'node:crypto'
import { UsageError } from '../configuration/failure.ts'
import type { Directory, TokenMetadata } from '../directory/directory.ts'
import { describeToken, findTokenOwner, issueToken } from '../endpoints/issue-token.ts'
import { GatewayError, type ValidationMessage } from '../errors/gateway-error.ts'
import { escapeControls, formatTable } from '../lib/text-table.ts'
import type { Roles } from '../policy/role.ts'
import { commandLineAudit, readId, withDirectory } from './directory.ts'

type Common = Readonly<{ config: string; json?: boolean }>

/** Who the new token is for and what it may do, as the operator wrote it. */
export type MintOptions = Common &
  Readonly<{ organization: string; user: string; scope: string; name?: string; expiresAt?: string }>

/** Mints by the rules of the endpoint. The token stands alone on standard output, so that a shell can take it. */
export async function runMintToken(options: MintOptions): Promise<void> {
  const organizationId = readId('--organization', options.organization)
  const userId = readId('--user', options.user)
  const { scope, name, expiresAt } = options
  const issued = await withDirectory(options.config, async ({ directory, roles }) => {
    const organization = await directory.findOrganization(organizationId)
    if (!organization) throw new Error(`there is no organization ${organizationId}; name another with --organization`)
    const audit = commandLineAudit(organizationId, randomUUID())
    const tools = { directory, draw: randomInt, now: () => new Date() }
    try {
      const owner = await findTokenOwner(organization, userId, directory)
      return await issueToken(owner, { scope, name, expiresAt }, roles, { audit, latest: null }, tools)
    } catch (error) {
      throw explainMint(error, organizationId, userId)
    }
  })
  process.stdout.write(options.json ? `${JSON.stringify(issued)}\n` : `${issued.token}\n`)
  if (options.json) return
  const expiry = issued.expiresAt === null ? 'does not expire' : `expires ${issued.expiresAt}`
  process.stderr.write(
    `minted token ${issued.id}${quoteName(issued.name)} of user ${userId}: ${scope}, ${expiry}\n` +
      'It is shown this once, and only its hash is stored: put it where secrets are kept. ' +
      `"sallyport tokens revoke ${issued.id}" ends it.\n`,
  )
}

/** Lists all of a user's tokens, newest first; expired ones too, revoked ones not, and never a secret. */
export async function runListTokens(options: Common & Readonly<{ user: string }>): Promise<void> {
  const userId = readId('--user', options.user)
  const { tokens, roles } = await withDirectory(options.config, async ({ directory, findUser, roles }) => {
    if (!(await findUser(userId))) throw new Error(`there is no user ${userId}; name another with --user`)
    return { tokens: await readAllPages(directory, userId), roles }
  })
  if (options.json) process.stdout.write(`${JSON.stringify(tokens.map(describeToken))}\n`)
  else if (tokens.length === 0) process.stdout.write(`user ${userId} has no tokens\n`)
  else process.stdout.write(describeTokens(tokens, roles.tokenScopes, new Date()))
}

/** Revokes any token; from then on it is as unknown as one that never was. */
export async function runRevokeToken(tokenId: string, options: Common): Promise<void> {
  const id = readId('the token', tokenId)
  const { revoked, userId } = await withDirectory(options.config, async ({ directory }) => {
    // Nobody claims to have it, so there is no hash to go by.
    const userId = (await directory.findToken(id, ''))?.user.id
    const audit = commandLineAudit(null, randomUUID())
    const revoked = userId === undefined ? undefined : await directory.revokeToken({ id, userId }, audit)
    if (!revoked)
      throw new Error(
        `there is no token ${id}: it may be revoked already; "sallyport tokens list --user ID" shows what is left`,
      )
    return { revoked, userId }
  })
  if (options.json) process.stdout.write(`${JSON.stringify(describeToken(revoked))}\n`)
  else process.stdout.write(`revoked token ${id}${quoteName(revoked.name)} of user ${userId}\n`)
}

const quoteName = (name: string | null): string => (name === null ? '' : ` "${escapeControls(name)}"`)

const pageSize = 1_000

/** Page by page, so that no answer is too large to come in time; a row that a new one pushed on counts once. */
async function readAllPages(directory: Directory, userId: number): Promise<readonly TokenMetadata[]> {
  const found = new Map<number, TokenMetadata>()
  for (let page = 1; ; page++) {
    const { tokens } = await directory.listTokens(userId, { page, perPage: pageSize })
    for (const token of tokens) found.set(token.id, token)
    if (tokens.length < pageSize) return [...found.values()]
  }
}

/** A line a token: what a person looks for before revoking one. */
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

/** Tokens of an older policy, or of another program, hold abilities that are no scope of today's. */
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

/** A refused mint in an operator's words; what an operator cannot be told stays as it is. */
function explainMint(error: unknown, organizationId: number, userId: number): unknown {
  if (!(error instanceof GatewayError)) return error
  switch (error.code) {
    case 'enterprise_required':
      return new Error(
        `organization ${organizationId} is no Enterprise organization, and only those have API tokens; ` +
          'name another with --organization',
      )
    case 'resource_not_found':
      return new Error(
        `user ${userId} is no member of organization ${organizationId}; give it a role there, or name another with --user`,
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

/** A user who cannot have tokens is a fact of the directory; everything else is how the command was called. */
function explainMessages(messages: readonly ValidationMessage[]): Error {
  const text = messages.map(({ field, message }) => `${optionNames[field] ?? field}: ${message}`).join('\n')
  const isUsage = messages.some(({ field }) => field !== 'userId')
  return isUsage ? new UsageError(text) : new Error(`${text} Name a service account with --user.`)
}
