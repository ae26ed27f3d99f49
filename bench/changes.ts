import { bearer, oauth } from '../test/support/world.ts'
import { addClusters, addMembers, addTokens } from './prepare-subjects.ts'
import type { Bench } from './start-bench.ts'

/** A request that is accepted, and what takes the right to it away. */
export type Subject = Readonly<{
  path: string
  headers: Readonly<Record<string, string>>
  /** Resolves when the change is committed. */
  change: () => Promise<unknown>
}>

/** A kind of change: which statuses say that it is felt, and as many fresh subjects as are wanted. */
export type Change = Readonly<{
  name: string
  refusals: readonly number[]
  prepare: (count: number) => Promise<readonly Subject[]>
}>

/** All kinds, in the order in which they are measured. */
export const createChanges = ({ world, database, upstream, changing }: Bench): readonly Change[] => {
  const { id: organization } = world.organizations.acme
  const { id: robot } = world.serviceAccounts.robot
  const datasets = '/datasets'
  const revoke = async (tokenId: number): Promise<void> => {
    const path = `/organizations/${organization}/users/${robot}/tokens/${tokenId}`
    const status = await changing({ method: 'DELETE', path, headers: oauth(world.users.admin) })
    if (status !== 200) throw new Error(`a revocation was answered with ${status}`)
  }
  /** Another writer, of whom the gateway is not told. */
  const sql = (text: string, ...values: readonly unknown[]) => database.query(text, [...values])
  const ofMembers = (text: string) => async (count: number) =>
    (await addMembers(database, world, count)).map(({ userId, headers }) => ({
      path: datasets,
      headers,
      change: () => sql(text, userId, organization),
    }))
  return [
    {
      name: 'revoke',
      refusals: [401],
      prepare: async (count) =>
        (await addTokens(database, Array<number>(count).fill(robot))).map(({ id, token }) => ({
          path: datasets,
          headers: bearer(token),
          change: () => revoke(id),
        })),
    },
    {
      name: 'role-change',
      refusals: [403],
      prepare: ofMembers("update role_assignments set role = 'org-client' where user_id = $1 and organization_id = $2"),
    },
    {
      name: 'membership-removal',
      refusals: [401, 403],
      prepare: ofMembers('delete from role_assignments where user_id = $1 and organization_id = $2'),
    },
    {
      name: 'cluster-suspend',
      refusals: [403],
      prepare: async (count) =>
        (await addClusters(database, world, upstream, count)).map((id) => ({
          path: `/clusters/${id}/proxy/bench`,
          headers: oauth(world.users.member),
          change: () => sql("update clusters set status = 'suspended' where id = $1", id),
        })),
    },
  ]
}
