import { GatewayError } from '../../base/errors/gateway-error.ts'
import { type Tag, tagsOfResource } from '../../directory/change.ts'
import { nameUser } from '../../directory/directory.ts'
import { isResourceId } from '../../policy/resource-kind.ts'
import type { QuestionedResource } from '../../policy/route.ts'
import { type PermittedCaller, seenAgent } from '../authorize/decide.ts'
import type { RouteMatch } from '../route/table.ts'

export type Consultation = Readonly<{
  groups: readonly QuestionGroup[]
  count: number
  owner: string
  tags: readonly Tag[]
  expiresAtMs: number | undefined
}>

export type QuestionGroup = Readonly<{ pdp: string; body: string; places: readonly number[] }>

type Entity = Readonly<{ type: string; id: string; properties?: object }>

export function composeConsultation(match: RouteMatch, caller: PermittedCaller): Consultation {
  const { questions } = match.route
  const shared = { subject: describeSubject(caller), context: describeContext(match, caller) }
  const evaluations = questions.map(({ action, about }) => ({
    subject: shared.subject,
    action: { name: action },
    resource: describeResource(about, match, caller),
    context: shared.context,
  }))
  // All questions of a route to one decision point travel in one request, so that it costs one wait.
  const names = [...new Set(questions.map(({ pdp }) => pdp))]
  const groups = names.map((pdp): QuestionGroup => {
    const places = questions.flatMap((question, place) => (question.pdp === pdp ? place : []))
    const asked = places.map((place) => evaluations[place])
    return { pdp, places, body: JSON.stringify(asked.length === 1 ? asked[0] : { evaluations: asked }) }
  })
  const { principal, organization } = caller
  const { credential } = principal
  return {
    groups,
    count: questions.length,
    // Waiting places are shared by organization. A caller without one shares with no other.
    owner: organization === undefined ? `user ${nameUser(principal.user)}` : `organization ${organization.id}`,
    tags: listTags(match, caller),
    // No answer is held past the end of the credential about which it was given.
    expiresAtMs: principal.proof?.endsAtMs ?? credential.expiresAt?.getTime(),
  }
}

function describeSubject({ principal: { user, credential }, organization, permissions }: PermittedCaller): Entity {
  const { externalId, userType } = user
  return {
    type: 'user',
    id: String(nameUser(user)),
    properties: {
      ...(externalId && { externalId }),
      userType,
      credential: credential.kind,
      ...(organization && { organizationId: String(organization.id), role: organization.role }),
      ...(permissions.isBypassing && { bypassScopes: permissions.bypassScopes }),
    },
  }
}

function describeContext({ route, target }: RouteMatch, { organization }: PermittedCaller): object {
  return {
    route: route.id,
    method: target.method,
    ...(organization && { organizationId: String(organization.id), organizationSlug: organization.slug }),
  }
}

function describeResource(about: QuestionedResource, { route, params }: RouteMatch, caller: PermittedCaller): Entity {
  const { type } = about
  switch (about.from) {
    case 'guarded':
      return { type, ...describeGuarded(about.level, caller) }
    case 'path': {
      const id = params.get(about.param) ?? ''
      if (!isResourceId('text', id)) throw new GatewayError('resource_id_malformed')
      return { type, id }
    }
    case 'route':
      return { type, id: route.id }
    default:
      return about satisfies never
  }
}

function describeGuarded(level: number, { resource }: PermittedCaller): Omit<Entity, 'type'> {
  const agent = seenAgent(resource)
  if (agent) {
    const { id, organizationId, isPublic } = agent
    return { id: String(id), properties: { organizationId: String(organizationId), isPublic } }
  }
  const record = resource?.kind === 'object' ? resource.record : undefined
  const found = typeof record === 'object' ? record.levels[level] : undefined
  if (!found) throw new GatewayError('internal')
  const { id, organizationId, ownerId, visibility } = found
  const owner = ownerId === null ? {} : { ownerId: String(ownerId) }
  return { id, properties: { organizationId: String(organizationId), ...owner, visibility } }
}

/** The records that the questions tell of. A change of any of them ends a held answer. */
function listTags({ route }: RouteMatch, { principal, organization, resource }: PermittedCaller): readonly Tag[] {
  const { user, proof } = principal
  const tags: Tag[] = []
  if (user.id !== undefined) tags.push(`user:${user.id}`)
  if (organization) tags.push(`organization:${organization.id}`)
  if (proof?.kind === 'api-token')
    tags.push(`token:${proof.id}`, ...proof.ancestors.map(({ id }): Tag => `token:${id}`))
  const agent = seenAgent(resource)
  if (agent) tags.push(`agent:${agent.id}`)
  if (resource?.kind === 'object' && typeof resource.record === 'object' && route.resource?.kind === 'object')
    tags.push(...tagsOfResource(route.resource.object, resource.record))
  return tags
}
