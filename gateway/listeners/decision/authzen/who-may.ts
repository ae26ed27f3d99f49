import type { WhoMayPage, WhoMayQuery } from '../../../../console/who-may.ts'
import type { Directory, KnownUser, UserRecord } from '../../../directory/directory.ts'
import type { Snapshot } from '../../../pipeline.ts'
import type { Consult } from '../../../stages/consult/consult.ts'
import { findMembership } from '../../../stages/resolve/organization.ts'
import { composeRequests, isUserAllowed } from './evaluate.ts'

type Members = Pick<Directory<KnownUser>, 'listMembers'>

export type AllowedMember = Readonly<{
  userId: number
  role: string
  userType: UserRecord['userType']
  email: string
  username: string | null
}>

type Allowed = Readonly<{ members: readonly AllowedMember[]; next: number | undefined }>

type Bounds = Readonly<{ start: number; rows: number; candidates: number }>

/** A page of 100 takes one query if half of its candidates are allowed. */
const partSize = 200

export async function listAllowed(
  directory: Members,
  organizationId: number,
  isAllowed: (user: UserRecord) => Promise<boolean>,
  { start, rows, candidates }: Bounds,
): Promise<Allowed> {
  const members: AllowedMember[] = []
  let after = start
  for (let seen = 0; seen < candidates; seen += partSize) {
    const part = await directory.listMembers({ organizationId, after, limit: partSize })
    for (const user of part) {
      if (members.length === rows) return { members, next: after }
      after = user.id
      if (!(await isAllowed(user))) continue
      const { id: userId, userType, email, username } = user
      const role = findMembership(user, organizationId)?.role ?? ''
      members.push({ userId, role, userType, email, username })
    }
    if (part.length < partSize) return { members, next: undefined }
  }
  return { members, next: after }
}

const page = { rows: 100, candidates: 1_000 }

/** A page judges up to 1,000 members by the pool that requests need, and few operators ask at a time. */
const mostUnderWay = 2

export function createWhoMay(directory: Directory<KnownUser>, snapshot: () => Snapshot, consult: Consult) {
  let underWay = 0
  return async ({ method, path, host, organizationId, after }: WhoMayQuery): Promise<WhoMayPage> => {
    const policy = { ...snapshot(), consult }
    const requests = composeRequests({ action: method, resource: { type: 'path', id: path } }, policy, host)
    if (requests.length === 0) return `No route takes ${method} ${path}.`
    if (underWay === mostUnderWay) return 'Other questions of this kind are under way. Ask again in a second.'
    underWay += 1
    try {
      const judge = (user: UserRecord) => isUserAllowed(user, requests, organizationId, policy, directory)
      const { members, next } = await listAllowed(directory, organizationId, judge, { start: after, ...page })
      return { members: members.map(({ email: _, ...member }) => member), next }
    } finally {
      underWay -= 1
    }
  }
}
