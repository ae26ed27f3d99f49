import type { Permit, PermittedCaller } from '../authorize/decide.ts'
import type { Directory } from '../directory/directory.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { type Rendered, renderSuccess } from '../errors/render.ts'
import type { Roles } from '../policy/role.ts'
import type { AnswerName } from '../policy/route.ts'
import { describeUser } from './authenticated-user.ts'
import type { TokenTools } from './issue-token.ts'
import type { RequestFacts } from './request-facts.ts'
import { listTokens, mintToken, revokeToken, type TokenCall, toAudit } from './tokens.ts'

export type Answer = (name: AnswerName, permit: Permit, roles: Roles, facts: RequestFacts) => Promise<Rendered>

export const createAnswer =
  (tools: TokenTools): Answer =>
  async (name, permit, roles, facts) => {
    const { caller, match } = permit
    if (!caller) throw new GatewayError('internal') // `policy check` refuses a public route to an endpoint of the gateway
    return answers[name]({ caller, params: match.params, facts, roles }, tools)
  }

type Endpoint = (call: TokenCall, tools: TokenTools) => Promise<Rendered>

const readMe: Endpoint = async ({ caller, facts, roles }, { directory }) =>
  renderSuccess(await describeCaller(caller, directory, roles), facts.requestId)

async function describeCaller(caller: PermittedCaller, directory: Directory, roles: Roles) {
  const { organization } = caller
  return describeUser(caller, organization && (await directory.findOrganization(organization.id)), roles)
}

/** `*` stands for all abilities, because a bypass scope has no list of them. */
const readAbilities: Endpoint = async ({ caller: { permissions }, facts }) =>
  renderSuccess(
    {
      abilities: permissions.abilities === '*' ? ['*'] : [...permissions.abilities].sort(),
      bypass: { active: permissions.isBypassing, scopes: permissions.bypassScopes },
    },
    facts.requestId,
  )

const switchOrganization: Endpoint = async (call, tools) => {
  const { caller, facts } = call
  const { organization, principal } = caller
  if (!organization) throw new GatewayError('membership_lost')
  await tools.directory.switchOrganization(principal.user.id, organization.id, toAudit(caller, facts))
  const user = { ...principal.user, currentOrganizationId: organization.id }
  return readMe({ ...call, caller: { ...caller, principal: { ...principal, user } } }, tools)
}

const answers: Readonly<Record<AnswerName, Endpoint>> = {
  'users.me': readMe,
  'users.abilities': readAbilities,
  'organizations.switch': switchOrganization,
  'tokens.mint': mintToken,
  'tokens.list': listTokens,
  'tokens.revoke': revokeToken,
}
