import type { PermittedCaller } from '../authorize/decide.ts'
import type { Directory, TokenMetadata } from '../directory/directory.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { type Rendered, renderList, renderSuccess } from '../errors/render.ts'
import type { Roles } from '../policy/role.ts'
import { parseId } from '../resolve/organization-id.ts'
import { invalid, readJsonObject } from './read-body.ts'
import { readPage } from './read-page.ts'
import { readTokenRequest } from './read-token-request.ts'
import type { RequestFacts } from './request-facts.ts'
import { type DrawInteger, formatToken, makeSecret } from './token-secret.ts'

/** What the token endpoints work with. */
export type TokenTools = Readonly<{ directory: Directory; draw: DrawInteger; now: () => Date }>

/** A permitted request of a token endpoint, with the parameters of its path. */
export type TokenCall = Readonly<{
  caller: PermittedCaller
  params: ReadonlyMap<string, string>
  facts: RequestFacts
  roles: Roles
}>

/** Mints a token for a service account of the organization; the raw value is in this one answer. */
export async function mintToken(call: TokenCall, { directory, draw, now }: TokenTools): Promise<Rendered> {
  const { caller, facts, roles } = call
  const target = await findTarget(call, directory)
  const body = await readJsonObject(facts)
  const earlier = target.userType === 'human' ? [clientManaged] : []
  const { name, scope, expiresAt } = readTokenRequest(body, [...roles.tokenScopes.keys()], now(), earlier)
  const { secret, hash } = makeSecret(draw)
  const abilities = [...(roles.tokenScopes.get(scope) ?? [])]
  const minted = await directory.mintToken(
    { userId: target.id, name, hash, abilities, expiresAt },
    toAudit(caller, facts),
  )
  return renderSuccess({ token: formatToken(minted.id, secret), ...describeMetadata(minted) }, facts.requestId, 201)
}

/** Lists a service account's tokens, newest first; expired ones too, revoked ones not. */
export async function listTokens(call: TokenCall, { directory }: TokenTools): Promise<Rendered> {
  const target = await findServiceAccount(call, directory)
  const page = readPage(call.facts.search)
  const { total, tokens } = await directory.listTokens(target.id, page)
  return renderList(tokens.map(describeMetadata), { ...page, total }, call.facts.requestId)
}

/** Revokes a token; from then on it is as unknown as one that never was. */
export async function revokeToken(call: TokenCall, { directory }: TokenTools): Promise<Rendered> {
  const target = await findServiceAccount(call, directory)
  const id = parseId(call.params.get('tokenId') ?? '')
  const revoked = id && (await directory.revokeToken({ id, userId: target.id }, toAudit(call.caller, call.facts)))
  if (!revoked) throw new GatewayError('resource_not_found')
  return renderSuccess(describeMetadata(revoked), call.facts.requestId)
}

const clientManaged = {
  field: 'userId',
  rule: 'clientManaged',
  message: 'Only client-managed users can have API tokens.',
}

/** The member that the path names. The role and ability are the route's; the Enterprise account is asked for here. */
async function findTarget({ caller, params }: TokenCall, directory: Directory) {
  const { organization } = caller
  if (organization?.accountType !== 'enterprise') throw new GatewayError('enterprise_required')
  const id = parseId(params.get('userId') ?? '')
  const target = id === undefined ? undefined : await directory.findMember(organization.id, id)
  if (!target) throw new GatewayError('resource_not_found')
  return target
}

async function findServiceAccount(call: TokenCall, directory: Directory) {
  const target = await findTarget(call, directory)
  if (target.userType === 'human') throw invalid([clientManaged])
  return target
}

/** Who did it, for which organization, from where: what the audit trail says beside the deed itself. */
export const toAudit = ({ principal, organization }: PermittedCaller, facts: RequestFacts) => ({
  actorId: principal.user.id,
  credential: principal.proof.kind === 'oauth' ? 'oauth' : `api-token:${principal.proof.id}`,
  organizationId: organization?.id ?? null,
  clientAddress: facts.clientAddress,
  requestId: facts.requestId,
})

const describeMetadata = ({ id, name, abilities, lastUsedAt, expiresAt, createdAt }: TokenMetadata) => ({
  id,
  type: 'bearer',
  name,
  abilities,
  lastUsedAt: lastUsedAt?.toISOString() ?? null,
  expiresAt: expiresAt?.toISOString() ?? null,
  createdAt: createdAt?.toISOString() ?? null,
})
