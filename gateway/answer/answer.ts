import type { Permit, PermittedCaller } from '../authorize/decide.ts'
import type { Directory } from '../directory/directory.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { type Rendered, renderSuccess } from '../errors/render.ts'
import type { Roles } from '../policy/role.ts'
import type { AnswerName } from '../policy/route.ts'
import { describeUser } from './authenticated-user.ts'

/** Answers a request of an endpoint that the gateway owns. */
export type Answer = (name: AnswerName, permit: Permit, roles: Roles, requestId: string) => Promise<Rendered>

export const createAnswer =
  (directory: Directory): Answer =>
  async (name, permit, roles, requestId) => {
    const { caller } = permit
    if (!caller) throw new GatewayError('internal') // no owned endpoint is public: the policy's check refuses it
    return renderSuccess(await answers[name](caller, directory, roles), requestId)
  }

type Endpoint = (caller: PermittedCaller, directory: Directory, roles: Roles) => Promise<unknown>

const readMe: Endpoint = async (caller, directory, roles) => {
  const { organization } = caller
  return describeUser(caller, organization && (await directory.findOrganization(organization.id)), roles)
}

/** `*` stands for all: nobody lists what a bypass scope may do. */
const readAbilities: Endpoint = async ({ authority }) => ({
  abilities: authority.abilities === '*' ? ['*'] : [...authority.abilities].sort(),
  bypass: { active: authority.isBypassing, scopes: authority.bypassScopes },
})

/** Stores the organization in force, which the route takes from its path, as the user's current one. */
const switchOrganization: Endpoint = async (caller, directory, roles) => {
  const { organization, principal } = caller
  if (!organization) throw new GatewayError('organization_forbidden')
  await directory.switchOrganization(principal.user.id, organization.id)
  const user = { ...principal.user, currentOrganizationId: organization.id }
  return readMe({ ...caller, principal: { ...principal, user } }, directory, roles)
}

const answers: Readonly<Record<AnswerName, Endpoint>> = {
  'users.me': readMe,
  'users.abilities': readAbilities,
  'organizations.switch': switchOrganization,
}
