import { randomInt, randomUUID } from 'node:crypto'
import type { Directory, TokenMetadata } from '../directory/directory.ts'
import { describeToken, findTokenOwner, issueToken } from '../endpoints/issue-token.ts'
import { disarm } from '../lib/text-table.ts'
import { describeTokens } from './describe-tokens.ts'
import { commandLineAudit, readId, withDirectory } from './directory.ts'
import { explainMint } from './explain-mint.ts'

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

const quoteName = (name: string | null): string => (name === null ? '' : ` "${disarm(name)}"`)

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
