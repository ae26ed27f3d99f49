import type { Directory, KnownUser, UserRecord } from '../../../directory/directory.ts'
import {
  type AskedPolicy,
  composeRequests,
  findSubject,
  isUserAllowed,
  listActions,
  listRoutes,
  readName,
  type SubjectNaming,
} from './evaluate.ts'
import type { NamedEntity, SearchQuestion } from './questions.ts'

export type Lookups = Pick<
  Directory<KnownUser>,
  'findAgent' | 'findResource' | 'findNamedMember' | 'findUniqueNames' | 'listAgents' | 'listMembers' | 'listResources'
>

export type SearchScope = Readonly<{
  organizationId: number
  policy: AskedPolicy
  directory: Lookups
  naming: SubjectNaming
}>

export type SearchResult = Readonly<{ type: string; id: string } | { name: string }>

export type SearchCandidate = Readonly<{ position: string; found: SearchResult; isAllowed: () => Promise<boolean> }>

export type ListCandidates = (after: string, limit: number) => Promise<readonly SearchCandidate[]>

const none: ListCandidates = async () => []

export async function chooseCandidates(question: SearchQuestion, scope: SearchScope): Promise<ListCandidates> {
  const { organizationId, naming, directory } = scope
  if (question.wanted === 'subject') return listSubjects(question, scope)
  const user = await findSubject(question.subject, organizationId, naming, directory)
  if (!user) return none
  return question.wanted === 'resource'
    ? listResources(user, question, scope)
    : listUserActions(user, question.resource, scope)
}

function listSubjects(
  { type, action, resource }: SearchQuestion & { wanted: 'subject' },
  { organizationId, policy, directory, naming }: SearchScope,
): ListCandidates {
  const requests = composeRequests({ action, resource }, policy)
  if (type !== 'user' || requests.length === 0) return none
  return async (after, limit) => {
    const members = await directory.listMembers({ organizationId, after: readPosition(after), limit })
    const nameOf = naming === 'id' ? nameById : await findNames(members, organizationId, directory)
    return members.map((user) => {
      const id = nameOf(user)
      return {
        position: String(user.id),
        found: { type, id },
        isAllowed: async () => id !== '' && isUserAllowed(user, requests, organizationId, policy, directory),
      }
    })
  }
}

const readPosition = (text: string): number | undefined => (text === '' ? undefined : Number(text))

const nameById = ({ id }: UserRecord): string => String(id)

async function findNames(
  members: readonly UserRecord[],
  organizationId: number,
  directory: Lookups,
): Promise<(user: UserRecord) => string> {
  const names = members.map(({ username }) => username ?? '').filter((name) => readName(name, 'username'))
  // A name that two members share names neither of them.
  const unique = await directory.findUniqueNames(organizationId, names)
  return ({ id, username }) => (unique.has(id) ? (username ?? '') : '')
}

function listResources(
  user: UserRecord,
  { type, action }: SearchQuestion & { wanted: 'resource' },
  { organizationId, policy, directory }: SearchScope,
): ListCandidates {
  const guarded = listRoutes(type, action, policy.routes)[0]?.resource
  if (!guarded) return none
  const judge = (id: string, lookups: Pick<Lookups, 'findAgent' | 'findResource'>): SearchCandidate => ({
    position: id,
    found: { type, id },
    isAllowed: async () => {
      const requests = composeRequests({ action, resource: { type, id } }, policy)
      return isUserAllowed(user, requests, organizationId, policy, lookups)
    },
  })
  const { findAgent, findResource } = directory
  if (guarded.kind === 'agent')
    return async (after, limit) => {
      const agents = await directory.listAgents({ organizationId, after: readPosition(after), limit })
      // The record that was listed is judged, and not read a second time.
      return agents.map((agent) => judge(String(agent.id), { findResource, findAgent: () => agent }))
    }
  return async (after, limit) => {
    const listed = await directory.listResources(guarded.object, { organizationId, after: after || undefined, limit })
    return listed.map(({ id, record }) => judge(id, { findAgent, findResource: () => record }))
  }
}

function listUserActions(
  user: UserRecord,
  resource: NamedEntity,
  { organizationId, policy, directory }: SearchScope,
): ListCandidates {
  const names = [...listActions(resource.type, policy.routes)].sort()
  return async (after, limit) =>
    names
      .filter((name) => name > after)
      .slice(0, limit)
      .map((name) => ({
        position: name,
        found: { name },
        isAllowed: async () => {
          const requests = composeRequests({ action: name, resource }, policy)
          return isUserAllowed(user, requests, organizationId, policy, directory)
        },
      }))
}
