import { GatewayError, type ValidationMessage } from '../../base/errors/gateway-error.ts'
import { type Rendered, renderList, renderSuccess } from '../../base/errors/render.ts'
import type { AuditContext, Minter, TokenManager, UserRecord } from '../../directory/directory.ts'
import type { Roles } from '../../policy/role.ts'
import type { Permit, PermittedCaller } from '../authorize/decide.ts'
import { parseId } from '../resolve/organization-id.ts'
import {
  describeToken,
  findTokenOwner,
  issueToken,
  type Minting,
  requireServiceAccount,
  type TokenOwner,
  type TokenTools,
} from './issue-token.ts'
import { invalid, readJsonObject } from './read-body.ts'
import type { RequestFacts } from './request-facts.ts'
import { mayMintFor, requireReach } from './require-reach.ts'

export type TokenCall = Readonly<{
  caller: PermittedCaller
  user: UserRecord
  params: ReadonlyMap<string, string>
  facts: RequestFacts
  roles: Roles
}>

export async function mintToken(call: TokenCall, tools: TokenTools): Promise<Rendered> {
  const { facts } = call
  await findOwner(call, tools.directory)
  const { body, confirmed } = await readJsonObject(facts)
  // A mint by the roles from before its body would give abilities that a reload took away.
  const latest = { ...call, ...readPermit(confirmed.permit), roles: confirmed.roles }
  const owner = await findOwner(latest, tools.directory)
  const issued = await issueToken(owner, body, latest.roles, toMinting(latest), tools)
  return renderSuccess(issued, facts.requestId, 201)
}

export function readPermit(
  permit: Permit,
  { ofClaims }: Readonly<{ ofClaims: boolean }> = { ofClaims: false },
): Pick<TokenCall, 'caller' | 'user' | 'params'> {
  const caller = requireCaller(permit)
  const { user } = caller.principal
  const isOfClaims = caller.organization?.source === 'claims'
  if (user.id === undefined || (isOfClaims && !ofClaims)) throw new GatewayError('not_available')
  return { caller, user, params: permit.match.params }
}

export function requireCaller({ caller }: Permit): PermittedCaller {
  if (!caller) throw new GatewayError('internal') // `policy check` refuses a public route to an endpoint of the gateway
  return caller
}

export async function listTokens(call: TokenCall, { directory }: TokenTools): Promise<Rendered> {
  const owner = await findServiceAccount(call, directory)
  const page = readPage(call.facts.search)
  const { total, tokens } = await directory.listTokens(owner.id, page, toManager(call))
  return renderList(tokens.map(describeToken), { ...page, total }, call.facts.requestId)
}

export async function revokeToken(call: TokenCall, { directory }: TokenTools): Promise<Rendered> {
  const owner = await findServiceAccount(call, directory)
  const id = parseId(call.params.get('tokenId') ?? '')
  const revoked = id && (await directory.revokeToken({ id, userId: owner.id }, toAudit(call), toManager(call)))
  if (!revoked) throw new GatewayError('token_not_of_user')
  return renderSuccess(describeToken(revoked), call.facts.requestId)
}

const findOwner = ({ caller, params }: TokenCall, directory: TokenTools['directory']): Promise<TokenOwner> =>
  findTokenOwner(caller.organization, parseId(params.get('userId') ?? ''), directory)

async function findServiceAccount(call: TokenCall, directory: TokenTools['directory']): Promise<TokenOwner> {
  const owner = await findOwner(call, directory)
  requireServiceAccount(owner)
  return owner
}

function toMinting(call: TokenCall): Minting {
  const { user, roles } = call
  const { principal, organization, permissions } = call.caller
  const { credential } = principal
  if (!organization) throw new GatewayError('membership_lost')
  const minter: Minter = {
    userId: user.id,
    parentId: credential.kind === 'api-token' ? credential.id : null,
    requireReach: (minter, owner) => requireReach(minter, owner, organization.id, roles),
  }
  return {
    organizationId: organization.id,
    audit: toAudit(call),
    minter,
    within: permissions.credentialAbilities,
    latest: credential.kind === 'api-token' ? credential.expiresAt : null,
  }
}

function toManager({ user, roles, caller: { organization } }: TokenCall): TokenManager {
  if (!organization) throw new GatewayError('membership_lost')
  const mayMint: TokenManager['mayMint'] = (manager, owner) => mayMintFor(manager, owner, organization.id, roles)
  return { userId: user.id, organizationId: organization.id, mayMint }
}

export const toAudit = ({ user, caller: { principal, organization }, facts }: TokenCall): AuditContext => ({
  actorId: user.id,
  credential: principal.credential.kind === 'oauth' ? 'oauth' : `api-token:${principal.credential.id}`,
  organizationId: organization?.id ?? null,
  clientAddress: facts.clientAddress,
  requestId: facts.requestId,
})

type PageRequest = Readonly<{ page: number; perPage: number }>

/** With 100 a page it passes any account, and its offset stays an `integer` of PostgreSQL. */
const largestPage = 1_000_000

/** `page` starts at 1; `perPage` is 1 to 100, by default 20. Other values are 422 (SPEC section 6). */
export function readPage(search: string): PageRequest {
  const messages: ValidationMessage[] = []
  const read = (field: string, fallback: number, largest: number): number => {
    const values = listValues(search, field)
    const [text] = values
    if (text === undefined) return fallback
    if (values.length > 1 || !/^-?\d{1,15}$/.test(text)) {
      messages.push({ field, rule: 'type', message: `${field} must be one integer.` })
      return fallback
    }
    const value = Number(text)
    if (value < 1) messages.push({ field, rule: 'min', message: `${field} must be at least 1.` })
    if (value > largest) messages.push({ field, rule: 'max', message: `${field} must be at most ${largest}.` })
    return value
  }
  const page = { page: read('page', 1, largestPage), perPage: read('perPage', 20, 100) }
  if (messages.length > 0) throw invalid(messages)
  return page
}

/**
 * Reads raw values, since digits need no escapes. Node 24's `URLSearchParams` takes quadratic time for `&a &a &a …`.
 */
const listValues = (search: string, field: string): readonly string[] =>
  search
    .replace(/^\?/, '')
    .split('&')
    .filter((part) => part === field || part.startsWith(`${field}=`))
    .map((part) => part.slice(field.length + 1))
