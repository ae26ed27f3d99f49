// The endpoints that the gateway answers itself, for callers that hold a permit.

import { GatewayError } from '../../base/errors/gateway-error.ts'
import { type Rendered, renderSuccess } from '../../base/errors/render.ts'
import type { Roles } from '../../policy/role.ts'
import type { AnswerName } from '../../policy/route.ts'
import type { Permit, PermittedCaller } from '../authorize/decide.ts'
import { describeUser } from './authenticated-user.ts'
import type { TokenTools } from './issue-token.ts'
import type { RequestFacts } from './request-facts.ts'
import { listTokens, mintToken, readPermit, requireCaller, revokeToken, type TokenCall, toAudit } from './tokens.ts'

export type Answer = (name: AnswerName, permit: Permit, roles: Roles, facts: RequestFacts) => Promise<Rendered>

export const createAnswer =
  (tools: TokenTools): Answer =>
  async (name, permit, roles, facts) => {
    if (name === 'users.abilities') return readAbilities(requireCaller(permit), facts)
    return answers[name]({ ...readPermit(permit, { ofClaims: name === 'users.me' }), facts, roles }, tools)
  }

type Endpoint = (call: TokenCall, tools: TokenTools) => Promise<Rendered>

const readMe: Endpoint = async ({ caller, user, facts, roles }, { directory }) => {
  const { organization } = caller
  const record = organization && (await directory.findOrganization(organization.id))
  return renderSuccess(describeUser(caller, user, record, roles), facts.requestId)
}

/** `*` stands for all abilities, because a bypass scope has no list of them. */
const readAbilities = ({ permissions }: PermittedCaller, facts: RequestFacts): Rendered =>
  renderSuccess(
    {
      abilities: permissions.abilities === '*' ? ['*'] : [...permissions.abilities].sort(),
      bypass: { active: permissions.isBypassing, scopes: permissions.bypassScopes },
    },
    facts.requestId,
  )

const switchOrganization: Endpoint = async (call, tools) => {
  const { organization } = call.caller
  if (!organization) throw new GatewayError('membership_lost')
  await tools.directory.switchOrganization(call.user.id, organization.id, toAudit(call))
  return readMe({ ...call, user: { ...call.user, currentOrganizationId: organization.id } }, tools)
}

const answers: Readonly<Record<Exclude<AnswerName, 'users.abilities'>, Endpoint>> = {
  'users.me': readMe,
  'organizations.switch': switchOrganization,
  'tokens.mint': mintToken,
  'tokens.list': listTokens,
  'tokens.revoke': revokeToken,
}
